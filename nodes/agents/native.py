"""The native agent: a loop on the host that calls the model and runs its tool calls."""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from contracts.agents import NATIVE
from contracts.chat import ChatRequest, Complete, Message, Reply
from contracts.errors import ModelUnavailable
from contracts.model_access import BUDGET_EXCEEDED, OpenModelAccess
from contracts.sandbox import Sandbox
from contracts.tool import Allowed, Guard, ToolCall
from nodes.agents.allowed_tools import (
    allowed_native_tools,
    allowed_tools_guard,
    offered_toolbox,
    parse_allowed_tools,
)
from nodes.agents.native_tools import ToolContext
from nodes.agents.tool_calls import ToolCallRunner, UsageMeter, has_json_object
from nodes.agents.types import Agent, AgentResult, AgentTask, Conversation, OnLine, token_spec
from nodes.text import one_line, truncate_middle

MAX_BAD_TURNS = 5
"""Turns in a row with only malformed or unknown calls, or with a truncated answer."""

MAX_SAME_CALLS = 5
"""Times in a row that a call returns the same result."""

_CALL_TIMEOUT_S = 600.0
_MAX_OUTPUT = 256 * 1024
_MAX_CONTENT = 100_000
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")
_DURATION = re.compile(r"(?<!\d)\d+(\.\d+)?\s?(ms|s|seconds?)\b")
_EMPTY = "Your answer was empty. Call a tool, or say what you found and did."
_WITHHELD = {"content_filter", "refusal"}
_CUT_OFF = "Your answer was cut off at its longest. Go on in smaller pieces."
_TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    undefined=StrictUndefined,
    autoescape=select_autoescape(),  # escapes HTML templates only; a prompt is plain text
)


def gateway_native_agent(
    open_access: OpenModelAccess,
    *,
    on_line: OnLine = lambda _: None,
    clock: Callable[[], float] = time.monotonic,
) -> Agent:
    """Return the native agent with model calls through the gateway, whose guard checks first."""

    def work(task: AgentTask, sandbox: Sandbox) -> AgentResult:
        with open_access(token_spec(NATIVE, task)) as access:
            return native_agent(access.complete, on_line=on_line, clock=clock)(task, sandbox)

    return work


def native_agent(
    complete: Complete,
    *,
    guard: Guard = lambda _: Allowed(),
    on_line: OnLine = lambda _: None,
    clock: Callable[[], float] = time.monotonic,
) -> Agent:
    """Return an agent that runs its tool calls in the sandbox.

    A call runs if both the task's allowed tools and `guard` allow it. The model is told about
    denied, malformed and failed calls; only an outage is raised.
    """

    def work(task: AgentTask, sandbox: Sandbox) -> AgentResult:
        meter = UsageMeter(task.limits, clock, task.conversation)
        runner = ToolCallRunner(
            context=ToolContext(sandbox=sandbox, left_s=meter.left_s),
            guards=(allowed_tools_guard(task.allowed_tools), guard),
            meter=meter,
            on_line=on_line,
            toolbox=task.toolbox,
        )
        return _Loop(task, complete=complete, runner=runner).run()

    return work


class _Stop(Exception):
    """The agent ends in failure; the message is its error."""


class _Loop:
    """The messages of one task, and the loop over turns."""

    def __init__(self, task: AgentTask, *, complete: Complete, runner: ToolCallRunner) -> None:
        self._task = task
        self._complete = complete
        self._runner = runner
        self._meter = runner.meter
        self._toolbox = offered_toolbox(task.toolbox, task.allowed_tools)
        host_tools = self._toolbox.tools if self._toolbox else ()
        self._tools = (*allowed_native_tools(task.allowed_tools), *host_tools)
        conversation = task.conversation
        self._messages = list(conversation.messages if conversation else self._first_messages())
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
        if reply.stop_reason in _WITHHELD:
            raise _Stop(f"the model refused, or its answer was filtered ({reply.stop_reason})")
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
        request = ChatRequest(
            model=self._task.model,
            messages=(self._system_message(), *self._messages[1:]),
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
        self._meter.count_turn(reply.usage)
        if reply.stop_reason == "context_window":
            raise _Stop(f"the conversation has grown too long for {self._task.model!r}")
        return reply

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

    def _system_message(self) -> Message:
        """Return the system message with the playbooks that fit now; they can change."""
        if self._toolbox is None:
            return self._messages[0]
        section = self._toolbox.prompt_section(self._task.node, self._task.prompt)
        return replace(self._messages[0], content=f"{self._messages[0].content}\n{section}\n")

    def _first_messages(self) -> tuple[Message, ...]:
        system = _TEMPLATES.get_template("system_prompt.md.j2").render(
            work_dir=self._runner.context.sandbox.work_dir,
            online=self._task.online,
            tools=[tool.name for tool in self._tools],
            allowed=str(parse_allowed_tools(self._task.allowed_tools)),
            system=self._task.system,
        )
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


@dataclass
class StuckDetector:
    """Counts repetitions. Each method returns the reason to stop the agent, or None."""

    bad_turns: int = 0
    empty_turns: int = 0
    same_calls: int = 0
    last_call: tuple[str, str, str] = ("", "", "")

    def turn(self, *, bad: bool, why: str) -> str | None:
        """Count a turn with content."""
        self.empty_turns = 0
        self.bad_turns = self.bad_turns + 1 if bad else 0
        if self.bad_turns < MAX_BAD_TURNS:
            return None
        return f"{MAX_BAD_TURNS} turns in a row were invalid; the last one: {why}"

    def empty_turn(self, stop_reason: str) -> str | None:
        """Count a turn without content. The second one in a row stops the agent."""
        self.empty_turns += 1
        if self.empty_turns < 2:
            return None
        return f"the model gave an empty answer twice (stop reason {stop_reason!r})"

    def call(self, call: ToolCall, result: str) -> str | None:
        """Count a call. Results that differ only in durations are equal."""
        this = (call.name, call.arguments, _DURATION.sub("", result))
        self.same_calls = self.same_calls + 1 if this == self.last_call else 1
        self.last_call = this
        if self.same_calls < MAX_SAME_CALLS:
            return None
        return (
            f"the model repeats itself: {call.name} {call.arguments[:200]} "
            f"{MAX_SAME_CALLS} times in a row with the same result"
        )
