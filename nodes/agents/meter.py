"""Counts what one agent spends."""

from collections import Counter
from collections.abc import Callable
from math import inf
from types import MappingProxyType

from contracts.chat import Usage
from contracts.model_access import AgentUsage, describe_usage
from contracts.run import DecisionCounts
from contracts.tool import Decision, Denied
from nodes.agents.conversation import Conversation
from nodes.agents.types import AgentLimits, AgentResult


class UsageMeter:
    """Turns, usage, calls and time of one agent; the clock starts when it is made.

    `so_far` is what a conversation that goes on had taken before.
    """

    def __init__(
        self, limits: AgentLimits, clock: Callable[[], float], so_far: Conversation | None = None
    ) -> None:
        before = so_far or Conversation()
        self._limits = limits
        self._clock = clock
        self._started = clock() - before.elapsed_s
        self._turns = before.spent.turns
        self._usage = before.spent.usage
        self._calls = Counter(before.spent.tool_calls)
        self._decisions = before.spent.decisions

    def count_turn(self, usage: Usage) -> None:
        self._turns += 1
        self._usage += usage

    def count_call(self, tool: str) -> None:
        self._calls[tool] += 1

    def count_decision(self, decision: Decision) -> None:
        denied = isinstance(decision, Denied)
        self._decisions += DecisionCounts(allowed=int(not denied), denied=int(denied))

    @property
    def elapsed_s(self) -> float:
        """Seconds that the agent has worked."""
        return self._clock() - self._started

    @property
    def counted(self) -> AgentUsage:
        """All that was counted so far."""
        return AgentUsage(
            turns=self._turns,
            usage=self._usage,
            tool_calls=dict(self._calls),
            decisions=self._decisions,
        )

    def left_s(self) -> float:
        """Seconds until the time limit, negative when it is past."""
        limit = self._limits.time_s
        return inf if limit is None else limit - self.elapsed_s

    def reached(self) -> str | None:
        """The limit that is reached and what was spent, or None."""
        return self._limits.reached(turns=self._turns, usage=self._usage, elapsed_s=self.elapsed_s)

    def spent(self) -> str:
        """What was spent so far, in words."""
        return describe_usage(self._turns, self._usage)

    def result(self, *, output: str, error: str | None) -> AgentResult:
        """How the agent ended, with all that was counted."""
        return AgentResult(
            status="success" if error is None else "failure",
            output=output,
            error=error,
            turns=self._turns,
            usage=self._usage,
            duration_ms=round(self.elapsed_s * 1000),
            tool_calls=MappingProxyType(dict(self._calls)),
            decisions=self._decisions,
        )
