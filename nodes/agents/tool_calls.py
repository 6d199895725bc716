"""Tool calls of the native agent: usage counters, and checking and running one call."""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

from pydantic import BaseModel, ValidationError

from contracts.chat import Reply
from contracts.errors import SandboxFileError
from contracts.model_access import DENIED_TOOL, AgentUsage, describe_usage, limit_reached
from contracts.run import DecisionCounts
from contracts.tool import Allowed, Decision, Denied, Guard, Toolbox, ToolCall
from nodes.agents.native_tools import (
    MAX_TOOL_OUTPUT,
    CallMalformed,
    ToolContext,
    ToolOutput,
    parse_call,
    run_tool,
)
from nodes.agents.types import AgentLimits, AgentResult, Conversation, OnLine
from nodes.text import one_line, truncate_middle

_MAX_ARGUMENTS = 2_000_000


class UsageMeter:
    """Counts an agent's usage from the time it is created, added to the conversation's usage."""

    def __init__(
        self,
        limits: AgentLimits,
        clock: Callable[[], float],
        conversation: Conversation | None = None,
    ) -> None:
        before = conversation or Conversation()
        self._limits = limits
        self._clock = clock
        self._started = clock() - before.elapsed_s
        self.spent = before.spent

    def count_turn(self, reply: Reply) -> None:
        answers = {reply.model: 1} if reply.model else {}
        self.spent += AgentUsage(turns=1, usage=reply.usage, answers=answers)

    def count_call(self, tool: str) -> None:
        self.spent += AgentUsage(tool_calls={tool: 1})

    def count_decision(self, decision: Decision) -> None:
        denied = isinstance(decision, Denied)
        counts = DecisionCounts(allowed=int(not denied), denied=int(denied))
        self.spent += AgentUsage(decisions=counts)

    @property
    def elapsed_s(self) -> float:
        return self._clock() - self._started

    def left_s(self) -> float:
        """Return the seconds until the time limit; negative after it."""
        limit = self._limits.time_s
        return inf if limit is None else limit - self.elapsed_s

    def reached(self) -> str | None:
        """Return a message for the first limit that is reached, or None."""
        elapsed_s, limit_s = self.elapsed_s, self._limits.time_s
        reached = limit_reached(self._limits, self.spent.turns, self.spent.usage)
        if reached is None and limit_s is not None and elapsed_s >= limit_s:
            reached = f"time limit of {limit_s:g} s reached: {self.describe()}"
        return None if reached is None else f"{reached}, {elapsed_s:.1f} s"

    def describe(self) -> str:
        return describe_usage(self.spent.turns, self.spent.usage)

    def result(self, output: str, error: str | None, saved: Conversation | None) -> AgentResult:
        """Return the agent's result with everything that was counted."""
        return AgentResult(
            status="success" if error is None else "failure",
            output=output,
            error=error,
            turns=self.spent.turns,
            answers=dict(self.spent.answers),
            usage=self.spent.usage,
            duration_ms=round(self.elapsed_s * 1000),
            tool_calls=dict(self.spent.tool_calls),
            decisions=self.spent.decisions,
            conversation=saved,
        )


def tool_line(name: str, subject: str, note: str, seconds: float) -> str:
    """Return a live line such as `bash pytest -q · exit 1 · 2.3 s`."""
    return f"{one_line(f'{name} {subject}')} · {note} · {seconds:.1f} s"


def has_json_object(call: ToolCall) -> bool:
    """Return True if the arguments are a JSON object of acceptable size."""
    if len(call.arguments) > _MAX_ARGUMENTS:
        return False
    try:
        return isinstance(json.loads(call.arguments), dict)
    except (ValueError, RecursionError):  # Python parses no integer of more than 4300 digits
        return False


@dataclass(frozen=True)
class ToolCallResult:
    """Text for the model. `malformed` if the tool or its arguments were invalid."""

    text: str
    malformed: bool = False


class _GatewayDenial(BaseModel, frozen=True, extra="forbid"):
    """Arguments of `DENIED_TOOL`."""

    call: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class ToolCallRunner:
    """Runs tool calls that every guard allows."""

    context: ToolContext
    outputs: str
    """Folder in the sandbox for outputs that are too long for the conversation."""
    guards: Sequence[Guard]
    meter: UsageMeter
    on_line: OnLine
    toolbox: Toolbox | None = None

    def run(self, call: ToolCall) -> ToolCallResult:
        """Run one call. Errors in the call are results for the model.

        Raises:
            SandboxLost: an outage, which is not the model's concern.
        """
        if call.name == DENIED_TOOL:
            return self._denied_by_gateway(call)
        self.meter.count_call(one_line(call.name, 64))
        try:
            subject, run = self._prepared(call)
        except CallMalformed as error:
            self.on_line(tool_line(call.name, "", "malformed", 0.0))
            return ToolCallResult(truncate_middle(f"error: {error}", 2000), malformed=True)
        decisions = (guard(call) for guard in self.guards)
        decision = next((d for d in decisions if isinstance(d, Denied)), Allowed())
        self.meter.count_decision(decision)
        if isinstance(decision, Denied):
            return self._denied(call.name, subject, decision.reason)
        began = time.monotonic()
        output = run()
        self.on_line(tool_line(call.name, subject, output.note, time.monotonic() - began))
        return ToolCallResult(self._shown(output.text))

    def _shown(self, text: str) -> str:
        """Return the text; of a long one the ends, and the file in which the agent finds all."""
        if len(text) <= MAX_TOOL_OUTPUT:
            return text
        number = sum(self.meter.spent.tool_calls.values())
        path = f"{self.outputs}/{number}.txt"
        ends = truncate_middle(text, MAX_TOOL_OUTPUT)
        try:
            self.context.sandbox.write_file(path, text.encode(errors="replace"))
        except SandboxFileError as error:
            return f"{ends}\n(the whole output could not be kept: {error})"
        lines = text.count("\n") + 1
        return f"{ends}\n(all {lines} lines are in {path}: read or search that file)"

    def _prepared(self, call: ToolCall) -> tuple[str, Callable[[], ToolOutput]]:
        """Return the call's subject for the live line, and a function that runs the tool."""
        too_long = len(call.arguments) > _MAX_ARGUMENTS
        toolbox = self.toolbox
        if toolbox is not None and call.name in {tool.name for tool in toolbox.tools}:

            def run_on_host() -> ToolOutput:
                text = "error: too long" if too_long else toolbox.run(call)
                return ToolOutput(text, "done")

            return "", run_on_host
        if too_long:
            raise CallMalformed(f"{len(call.arguments)} characters of arguments are too many")
        args = parse_call(call)
        return args.subject, lambda: run_tool(args, self.context)

    def _denied_by_gateway(self, call: ToolCall) -> ToolCallResult:
        try:
            denial = _GatewayDenial.model_validate_json(call.arguments)
        except ValidationError:
            return ToolCallResult("error: this tool cannot be called", malformed=True)
        self.meter.count_call(one_line(denial.call, 64))
        self.meter.count_decision(Denied(reason=denial.reason))
        return self._denied(denial.call, "", denial.reason)

    def _denied(self, tool: str, subject: str, reason: str) -> ToolCallResult:
        self.on_line(tool_line(tool, subject, "denied", 0.0))
        return ToolCallResult(f"denied: {reason}")
