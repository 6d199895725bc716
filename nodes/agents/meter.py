"""Counts what one agent spends."""

from collections import Counter
from collections.abc import Callable
from math import inf
from types import MappingProxyType

from contracts.chat import Usage
from contracts.run import Decisions
from contracts.tool import Decision, Denied
from nodes.agents.types import AgentLimits, AgentResult, spent_line


class Meter:
    """Turns, usage, calls and time of one agent; the clock starts when it is made."""

    def __init__(self, limits: AgentLimits, clock: Callable[[], float]) -> None:
        self._limits = limits
        self._clock = clock
        self._started = clock()
        self._turns = 0
        self._usage = Usage()
        self._calls: Counter[str] = Counter()
        self._decisions = Decisions()

    def count_turn(self, usage: Usage) -> None:
        self._turns += 1
        self._usage += usage

    def count_call(self, tool: str) -> None:
        self._calls[tool] += 1

    def count_decision(self, decision: Decision) -> None:
        denied = isinstance(decision, Denied)
        self._decisions += Decisions(allowed=int(not denied), denied=int(denied))

    def left_s(self) -> float:
        """Seconds until the time limit, negative when it is past."""
        limit = self._limits.time_s
        return inf if limit is None else limit - (self._clock() - self._started)

    def reached(self) -> str | None:
        """The limit that is reached and what was spent, or None."""
        elapsed_s = self._clock() - self._started
        return self._limits.reached(turns=self._turns, usage=self._usage, elapsed_s=elapsed_s)

    def spent(self) -> str:
        """What was spent so far, in words."""
        return spent_line(self._turns, self._usage)

    def result(self, *, output: str, error: str | None) -> AgentResult:
        """How the agent ended, with all that was counted."""
        return AgentResult(
            status="success" if error is None else "failure",
            output=output,
            error=error,
            turns=self._turns,
            usage=self._usage,
            duration_ms=round((self._clock() - self._started) * 1000),
            tool_calls=MappingProxyType(dict(self._calls)),
            decisions=self._decisions,
        )
