"""The native agent: a model, five tools and a loop that knows when to stop."""

import time
from collections.abc import Callable
from dataclasses import replace

from contracts.agents import NATIVE
from contracts.chat import ChatRequest, Complete, Message, Reply
from contracts.errors import ModelUnavailable
from contracts.model_access import BUDGET_EXCEEDED, OpenModelAccess
from contracts.sandbox import Sandbox
from contracts.tool import Allowed, Guard
from nodes.agents.allowed_tools import (
    allowed_native_tools,
    allowed_tools_guard,
    parse_allowed_tools,
)
from nodes.agents.conversation import Conversation
from nodes.agents.history import provider_safe
from nodes.agents.lines import one_line
from nodes.agents.meter import UsageMeter
from nodes.agents.prompts import system_prompt
from nodes.agents.stuck import StuckDetector
from nodes.agents.tool_calls import ToolCallRunner
from nodes.agents.tool_context import ToolContext
from nodes.agents.toolbox import offered_tools
from nodes.agents.types import Agent, AgentResult, AgentTask, OnLine, token_spec
from nodes.text import truncate_middle

_CALL_TIMEOUT_S = 600.0
_OUTPUT_CAP = 256 * 1024
_EMPTY = "Your answer was empty. Call a tool, or say what you found and did."
_WITHHELD = {"content_filter", "refusal"}
_CUT_OFF = "Your answer was cut off at its longest. Go on in smaller pieces."


def gateway_native_agent(
    open_gate: OpenModelAccess,
    *,
    on_line: OnLine = lambda _: None,
    clock: Callable[[], float] = time.monotonic,
) -> Agent:
    """The native agent, asking through a gateway, whose guard decides before it does."""

    def work(task: AgentTask, sandbox: Sandbox) -> AgentResult:
        with open_gate(token_spec(NATIVE, task)) as gate:
            return native_agent(gate.complete, on_line=on_line, clock=clock)(task, sandbox)

    return work


def native_agent(
    complete: Complete,
    *,
    guard: Guard = lambda _: Allowed(),
    on_line: OnLine = lambda _: None,
    clock: Callable[[], float] = time.monotonic,
) -> Agent:
    """An agent that calls the model itself and runs its tool calls in the sandbox.

    A call goes ahead when both the task's allowed tools and `guard` allow it. A call that
    is denied, malformed or fails is told to the model; only an outage is raised.
    """

    def work(task: AgentTask, sandbox: Sandbox) -> AgentResult:
        meter = UsageMeter(task.limits, clock, task.conversation)
        caller = ToolCallRunner(
            bench=ToolContext(sandbox=sandbox, left_s=meter.left_s),
            guards=(allowed_tools_guard(task.allowed_tools), guard),
            meter=meter,
            on_line=on_line,
            toolbox=task.toolbox,
        )
        return _Conversation(task, complete=complete, caller=caller).work()

    return work


class _Stop(Exception):
    """The agent ends in failure; the message says why."""


class _Conversation:
    """One task at work: what was said so far, and whether it gets anywhere."""

    def __init__(self, task: AgentTask, *, complete: Complete, caller: ToolCallRunner) -> None:
        self._task = task
        self._complete = complete
        self._caller = caller
        self._meter = caller.meter
        self._host_tools = offered_tools(task.toolbox, task.allowed_tools)
        self._tools = (*allowed_native_tools(task.allowed_tools), *self._host_tools)
        self._messages = list(
            task.conversation.messages if task.conversation else self._beginning()
        )
        if task.conversation and task.conversation.told:
            self._tell(task.conversation.told)
        self._streaks = StuckDetector()
        said = (m.content for m in reversed(self._messages) if m.role == "assistant")
        self._output = next(filter(str.strip, said), "")

    def work(self) -> AgentResult:
        """Turn after turn, until the model answers or something stops it."""
        try:
            while not self._turn():
                self._keep()
        except _Stop as stop:
            return self._meter.result(output=self._output, error=str(stop))
        done = self._meter.result(output=self._output, error=None)
        return replace(done, conversation=self._talk) if done.decisions.denied else done

    def _keep(self) -> None:
        self._task.save_conversation(self._talk, lambda: True)

    @property
    def _talk(self) -> Conversation:
        return Conversation(
            model=self._task.model,
            messages=tuple(self._messages),
            spent=self._meter.counted,
            elapsed_s=self._meter.elapsed_s,
        )

    def _turn(self) -> bool:
        """Call the model once and do what it asks; True when that was its answer."""
        reply = self._ask()
        said = reply.message
        self._output = (
            truncate_middle(said.content, _OUTPUT_CAP) if said.content.strip() else self._output
        )
        if reply.stop_reason in _WITHHELD:
            raise _Stop(f"the model refused, or its answer was filtered ({reply.stop_reason})")
        if not said.tool_calls and not said.content.strip():
            _stop_if(self._streaks.empty(reply.stop_reason))
            self._tell(_EMPTY)
            return False
        self._messages.append(provider_safe(said))
        if said.tool_calls:
            self._run_calls(said)
            return False
        if reply.stop_reason == "length":
            _stop_if(self._streaks.turn(bad=True, why="an answer that was cut off"))
            self._tell(_CUT_OFF)
            return False
        return True

    def _ask(self) -> Reply:
        _stop_if(self._meter.reached())
        request = ChatRequest(
            model=self._task.model,
            messages=(self._system(), *self._messages[1:]),
            tools=self._tools,
            timeout_s=max(1.0, min(_CALL_TIMEOUT_S, self._meter.left_s())),
        )
        try:
            reply = self._complete(request)
        except ModelUnavailable as error:
            if self._meter.left_s() <= 0:  # our own limit cut the call short: no outage
                _stop_if(self._meter.reached())
            raise ModelUnavailable(f"{error}; {self._meter.spent()}") from error
        if reply.stop_reason == BUDGET_EXCEEDED:
            raise _Stop(reply.message.content)
        self._meter.count_turn(reply.usage)
        if reply.stop_reason == "context_window":
            raise _Stop(f"the conversation has grown too long for {self._task.model!r}")
        return reply

    def _run_calls(self, said: Message) -> None:
        if said.content.strip():
            self._caller.on_line(one_line(said.content))
        results = []
        for call, kept in zip(said.tool_calls, self._messages[-1].tool_calls, strict=True):
            if self._meter.left_s() <= 0:
                _stop_if(self._meter.reached())
            results.append(result := self._caller.run(call))
            answer = Message(role="tool", content=result.text, tool_call_id=kept.id)
            self._messages.append(answer)
            _stop_if(self._streaks.call(call, result.text))
        all_bad = all(result.malformed for result in results)
        _stop_if(self._streaks.turn(bad=all_bad, why=results[-1].text))

    def _system(self) -> Message:
        """The system message; a suggestion that is gone by now is in it no more."""
        if self._task.toolbox is None or not self._host_tools:
            return self._messages[0]
        says = self._task.toolbox.prompt_section(self._task.node, self._task.prompt)
        return replace(self._messages[0], content=f"{self._messages[0].content}\n{says}\n")

    def _beginning(self) -> tuple[Message, ...]:
        return (
            Message(role="system", content=self._system_prompt()),
            Message(role="user", content=self._task.prompt),
        )

    def _tell(self, text: str) -> None:
        self._messages.append(Message(role="user", content=text))

    def _system_prompt(self) -> str:
        return system_prompt(
            work_dir=self._caller.bench.sandbox.work_dir,
            online=self._task.online,
            tools=[tool.name for tool in self._tools],
            allowed=str(parse_allowed_tools(self._task.allowed_tools)),
            system=self._task.system,
        )


def _stop_if(reason: str | None) -> None:
    if reason is not None:
        raise _Stop(reason)
