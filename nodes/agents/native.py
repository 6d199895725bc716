"""The native agent: a loop on the host that calls the model and runs its tool calls."""

import re
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from contracts.agents import NATIVE
from contracts.chat import ChatRequest, Complete, Message, Reply
from contracts.errors import ModelUnavailable
from contracts.model_access import BUDGET_EXCEEDED, OpenModelAccess, refusal
from contracts.sandbox import Sandbox
from contracts.tool import Allowed, Guard, ToolCall
from nodes.agents.allowed_tools import (
    allowed_native_tools,
    allowed_tools_guard,
    offered_toolbox,
    parse_allowed_tools,
)
from nodes.agents.context_window import ContextWindow
from nodes.agents.native_tools import ToolContext
from nodes.agents.stuck import StuckDetector
from nodes.agents.tool_calls import ToolCallRunner, UsageMeter, has_json_object
from nodes.agents.types import Agent, AgentResult, AgentTask, Conversation, OnLine, token_spec
from nodes.text import one_line, truncate_middle

_CALL_TIMEOUT_S = 600.0
_MAX_OUTPUT = 256 * 1024
_MAX_CONTENT = 100_000
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")
_OUTPUTS = "/tmp/harness-output"  # noqa: S108 - in the sandbox, where /tmp is its own
_EMPTY = "Your answer was empty. Call a tool, or say what you found and did."
_CUT_OFF = "Your answer was cut off at its longest. Go on in smaller pieces."
_TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    undefined=StrictUndefined,
    autoescape=select_autoescape(),  # escapes HTML templates only; a prompt is plain text
)


def gateway_native_agent(
    open_access: OpenModelAccess,
    *,
    context_tokens: int | None = None,
    on_line: OnLine = lambda _: None,
) -> Agent:
    """Return the native agent with model calls through the gateway, whose guard checks first.

    `context_tokens` is the model's context. None: what the gateway knows of it.
    """

    def work(task: AgentTask, sandbox: Sandbox) -> AgentResult:
        with open_access(token_spec(NATIVE, task)) as access:
            tokens = context_tokens or access.context_tokens
            agent = native_agent(access.complete, context_tokens=tokens, on_line=on_line)
            return agent(task, sandbox)

    return work


def native_agent(
    complete: Complete,
    *,
    context_tokens: int | None = None,
    guard: Guard = lambda _: Allowed(),
    on_line: OnLine = lambda _: None,
    clock: Callable[[], float] = time.monotonic,
) -> Agent:
    """Return an agent that runs its tool calls in the sandbox.

    A call runs if both the task's allowed tools and `guard` allow it. The model is told about
    denied, malformed and failed calls; only an outage is raised. The conversation is kept shorter
    than `context_tokens`; None means the size of most models.
    """

    def work(task: AgentTask, sandbox: Sandbox) -> AgentResult:
        meter = UsageMeter(task.limits, clock, task.conversation)
        runner = ToolCallRunner(
            context=ToolContext(sandbox=sandbox, left_s=meter.left_s),
            outputs=f"{_OUTPUTS}/{_NOT_IN_NAMES.sub('_', task.node)}",
            guards=(allowed_tools_guard(task.allowed_tools), guard),
            meter=meter,
            on_line=on_line,
            toolbox=task.toolbox,
        )
        return _Loop(task, context_tokens, complete=complete, runner=runner).run()

    return work


class _Stop(Exception):
    """The agent ends in failure; the message is its error."""


class _Loop:
    """The messages of one task, and the loop over turns."""

    def __init__(
        self,
        task: AgentTask,
        context_tokens: int | None,
        *,
        complete: Complete,
        runner: ToolCallRunner,
    ) -> None:
        self._task = task
        self._complete = complete
        self._runner = runner
        self._meter = runner.meter
        self._toolbox = offered_toolbox(task.toolbox, task.allowed_tools)
        host_tools = self._toolbox.tools if self._toolbox else ()
        self._tools = (*allowed_native_tools(task.allowed_tools), *host_tools)
        self._window = ContextWindow(context_tokens, self._tools)
        conversation = task.conversation
        first, *rest = self._first_messages()
        # The first message names playbooks that fit the prompt, which a resume may have changed.
        self._messages = [first, *(conversation.messages[1:] if conversation else rest)]
        if conversation and conversation.told:
            self._tell(conversation.told)
        self._stuck = StuckDetector()
        answers = (m.content for m in reversed(self._messages) if m.role == "assistant")
        self._output = next(filter(str.strip, answers), "")

    def run(self) -> AgentResult:
        """Take turns until the model answers or a limit stops it."""
        try:
            while not self._turn():
                self._task.save_conversation(self._conversation, lambda: True)
        except _Stop as stop:
            return self._meter.result(self._output, str(stop), None)
        may_continue = self._task.may_continue or self._meter.spent.decisions.denied > 0
        saved = self._conversation if may_continue else None
        return self._meter.result(self._output, None, saved)

    @property
    def _conversation(self) -> Conversation:
        return Conversation(
            model=self._task.model,
            messages=tuple(self._messages),
            spent=self._meter.spent,
            elapsed_s=self._meter.elapsed_s,
        )

    def _turn(self) -> bool:
        """Call the model once and run its tool calls. Return True if it gave its answer."""
        reply = self._ask()
        message = reply.message
        if message.content.strip():
            self._output = truncate_middle(message.content, _MAX_OUTPUT)
        _stop_if(refusal(reply.stop_reason))
        if not message.tool_calls and not message.content.strip():
            _stop_if(self._stuck.empty_turn(reply.stop_reason))
            self._tell(_EMPTY)
            return False
        self._messages.append(_provider_safe(message))
        if message.tool_calls:
            self._run_calls(message)
            return False
        if reply.stop_reason == "length":
            _stop_if(self._stuck.turn(bad=True, why="an answer that was cut off"))
            self._tell(_CUT_OFF)
            return False
        return True

    def _ask(self) -> Reply:
        _stop_if(self._meter.reached())
        self._make_room()
        request = ChatRequest(
            model=self._task.model,
            messages=tuple(self._messages),
            tools=self._tools,
            timeout_s=max(1.0, min(_CALL_TIMEOUT_S, self._meter.left_s())),
        )
        try:
            reply = self._complete(request)
        except ModelUnavailable as error:
            if self._meter.left_s() <= 0:  # the agent's own time limit ended the call: no outage
                _stop_if(self._meter.reached())
            raise ModelUnavailable(f"{error}; {self._meter.describe()}") from error
        if reply.stop_reason == BUDGET_EXCEEDED:
            raise _Stop(reply.message.content)
        self._meter.count_turn(reply)
        if reply.stop_reason == "context_window":
            return self._ask_with_less(request)
        self._window.count(request, reply)
        return reply

    def _ask_with_less(self, request: ChatRequest) -> Reply:
        """Call the model again with a shorter conversation, since its context is full."""
        before = self._messages
        self._window.overflowed(request)
        self._make_room()
        if self._messages == before:
            raise _Stop(f"the conversation has grown too long for {self._task.model!r}")
        return self._ask()

    def _make_room(self) -> None:
        """Leave out the oldest parts of the conversation before it fills the model's context."""
        shorter = self._window.fitting(self._messages)
        if shorter != self._messages:
            self._messages = shorter
            self._runner.on_line("the oldest parts of the conversation were left out")

    def _run_calls(self, message: Message) -> None:
        if message.content.strip():
            self._runner.on_line(one_line(message.content))
        results = []
        for call, sent in zip(message.tool_calls, self._messages[-1].tool_calls, strict=True):
            if self._meter.left_s() <= 0:
                _stop_if(self._meter.reached())
            results.append(result := self._runner.run(call))
            answer = Message(role="tool", content=result.text, tool_call_id=sent.id)
            self._messages.append(answer)
            _stop_if(self._stuck.call(call, result.text))
        all_bad = all(result.malformed for result in results)
        _stop_if(self._stuck.turn(bad=all_bad, why=results[-1].text))

    def _first_messages(self) -> tuple[Message, ...]:
        system = _TEMPLATES.get_template("system_prompt.md.j2").render(
            work_dir=self._runner.context.sandbox.work_dir,
            online=self._task.online,
            tools=[tool.name for tool in self._tools],
            allowed=str(parse_allowed_tools(self._task.allowed_tools)),
            system=self._task.system,
        )
        if self._toolbox is not None:
            system += f"\n{self._toolbox.prompt_section(self._task.prompt)}\n"
        return (
            Message(role="system", content=system),
            Message(role="user", content=self._task.prompt),
        )

    def _tell(self, text: str) -> None:
        self._messages.append(Message(role="user", content=text))


def _stop_if(reason: str | None) -> None:
    if reason is not None:
        raise _Stop(reason)


def _provider_safe(message: Message) -> Message:
    """Return the message in a form that every provider accepts in a conversation.

    Providers reject a whole conversation for a call without an id, an invalid tool name, or
    arguments that are not a JSON object. Very long text is truncated.
    """
    calls = tuple(
        ToolCall(
            id=call.id or f"call_{number}",
            name=_NOT_IN_NAMES.sub("_", call.name)[:64] or "unnamed",
            arguments=call.arguments if has_json_object(call) else "{}",
        )
        for number, call in enumerate(message.tool_calls, start=1)
    )
    content = truncate_middle(message.content, _MAX_CONTENT)
    return replace(message, content=content, tool_calls=calls)
