"""One tool call: checked, decided about, run, and told in one line."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ValidationError

from contracts.model_access import DENIED_TOOL
from contracts.tool import Allowed, Decision, Denied, Guard, ToolCall
from contracts.toolbox import Toolbox
from nodes.agents.history import arguments_too_long
from nodes.agents.lines import one_line, tool_line
from nodes.agents.meter import UsageMeter
from nodes.agents.tool_context import ToolContext
from nodes.agents.tools import TOOL_OUTPUT_CAP, AnyArgs, CallMalformed, parse_call, run_tool
from nodes.agents.types import OnLine
from nodes.text import truncate_middle


@dataclass(frozen=True)
class ToolCallResult:
    """What the model is told. `malformed` when the call made no sense at all."""

    text: str
    malformed: bool = False


@dataclass(frozen=True, kw_only=True)
class ToolCallRunner:
    """Runs calls on a bench, as far as every guard allows."""

    bench: ToolContext
    guards: Sequence[Guard]
    meter: UsageMeter
    on_line: OnLine
    toolbox: Toolbox | None = None

    def run(self, call: ToolCall) -> ToolCallResult:
        """Do one call; whatever is wrong with it is the result.

        Raises:
            SandboxLost: an outage; the model is not told.
        """
        if call.name == DENIED_TOOL:
            return self._denied_before(call)
        self.meter.count_call(one_line(call.name, 64))
        if self.toolbox is not None and call.name in {t.name for t in self.toolbox.tools}:
            return self._on_host(call, self.toolbox)
        try:
            args = _args(call)
        except CallMalformed as error:
            self.on_line(tool_line(call.name, "", "malformed", 0.0))
            return ToolCallResult(truncate_middle(f"error: {error}", 2000), malformed=True)
        decision = self._decide(call)
        self.meter.count_decision(decision)
        if isinstance(decision, Denied):
            self.on_line(tool_line(call.name, args.subject, "denied", 0.0))
            return ToolCallResult(f"denied: {decision.reason}")
        return ToolCallResult(self._do(call.name, args))

    def _on_host(self, call: ToolCall, toolbox: Toolbox) -> ToolCallResult:
        """A call of a tool that is not the sandbox's; its arguments are the toolbox's matter."""
        decision = self._decide(call)
        self.meter.count_decision(decision)
        if isinstance(decision, Denied):
            self.on_line(tool_line(call.name, "", "denied", 0.0))
            return ToolCallResult(f"denied: {decision.reason}")
        began = time.monotonic()
        text = "error: too long" if arguments_too_long(call) else toolbox.run(call)
        self.on_line(tool_line(call.name, "", "done", time.monotonic() - began))
        return ToolCallResult(truncate_middle(text, TOOL_OUTPUT_CAP))

    def _denied_before(self, call: ToolCall) -> ToolCallResult:
        """Tell of a call that the gateway has denied."""
        try:
            said = _Denial.model_validate_json(call.arguments)
        except ValidationError:
            return ToolCallResult("error: nobody can call that", malformed=True)
        self.meter.count_call(one_line(said.call, 64))
        self.meter.count_decision(Denied(reason=said.reason))
        self.on_line(tool_line(said.call, "", "denied", 0.0))
        return ToolCallResult(f"denied: {said.reason}")

    def _do(self, name: str, args: AnyArgs) -> str:
        began = time.monotonic()
        output = run_tool(args, self.bench)
        self.on_line(tool_line(name, args.subject, output.note, time.monotonic() - began))
        return output.text

    def _decide(self, call: ToolCall) -> Decision:
        decisions = (guard(call) for guard in self.guards)
        return next((d for d in decisions if isinstance(d, Denied)), Allowed())


class _Denial(BaseModel, frozen=True, extra="forbid"):
    call: str
    reason: str


def _args(call: ToolCall) -> AnyArgs:
    if arguments_too_long(call):
        raise CallMalformed(f"{len(call.arguments)} characters of arguments are too many")
    return parse_call(call)
