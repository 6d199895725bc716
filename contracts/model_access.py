"""One agent's way to its model: what it may spend, what it spent, and where to ask."""

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

from contracts.chat import Complete, Usage
from contracts.run import DecisionCounts
from contracts.tool import Guard

DENIED_TOOL = "denied"
"""The tool that a refused call names instead; its arguments are `call` and `reason`."""

BUDGET_EXCEEDED = "budget_exceeded"
"""Stop reason of a reply that was not asked for any more; its content says what was spent."""

INTERNAL_AGENT = "harness"
"""Stands for an agent where our own code asks the model, and judges tool calls itself."""


@dataclass(frozen=True, kw_only=True)
class GuardBounds:
    """What an agent's guard goes by, besides the tools it allows. Nothing here is from data.

    `taint` names the untrusted origins that the agent sees. `protected` and `secret` are
    patterns of files, `hosts` is where the run's egress leads. `changes` are the patterns of
    protected files that `--allow-change` or the blueprint permits to change; no text of an
    intent permits anything. With `ask` what is denied is a question to a person, whose answer
    the agent waits for as long as `wait_s`.
    """

    taint: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()
    secret: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    ask: bool = False
    wait_s: float = 0.0


@dataclass(frozen=True, kw_only=True)
class TokenSpec:
    """What a token is worth: one agent, one model, these tools and so many turns.

    `allowed_tools` are the words of `nodes.agents.allowed_tools`; None allows all. Without
    `bounds` nothing else is asked. A limit of None is no limit; the run's budget holds in
    any case. `read` are the files with secrets that its conversation showed before.
    """

    node: str
    agent: str
    model: str
    allowed_tools: tuple[str, ...] | None = None
    bounds: GuardBounds | None = None
    read: tuple[str, ...] = ()
    turns: int | None = None
    tokens: int | None = None
    cost_usd: float | None = None


class _Limits(Protocol):
    @property
    def turns(self) -> int | None: ...
    @property
    def tokens(self) -> int | None: ...
    @property
    def cost_usd(self) -> float | None: ...


def limit_reached(limits: _Limits, turns: int, usage: Usage, *, in_flight: int = 0) -> str | None:
    """The first limit that is reached and what was spent, or None while there is room.

    Turns that are `under_way` count as turns already.
    """
    told = describe_usage(turns, usage)
    if limits.turns is not None and turns + in_flight >= limits.turns:
        return f"turn limit of {limits.turns} reached: {told}"
    if limits.tokens is not None and usage.total >= limits.tokens:
        return f"token limit of {limits.tokens} reached: {told}"
    if limits.cost_usd is not None and usage.cost_usd >= limits.cost_usd:
        return f"budget exceeded: ${usage.cost_usd:.4f} of ${limits.cost_usd:g}: {told}"
    return None


def describe_usage(turns: int, usage: Usage) -> str:
    """What an agent spent, as errors tell it."""
    return f"spent {turns} turns, {usage.total} tokens, ${usage.cost_usd:.4f}"


@dataclass(frozen=True, kw_only=True)
class AgentUsage:
    """What was asked for under a token so far.

    `stopped` says which limit was reached, `outage` why the model did not answer at last.
    """

    turns: int = 0
    usage: Usage = field(default_factory=Usage)
    tool_calls: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    decisions: DecisionCounts = field(default_factory=DecisionCounts)
    stopped: str | None = None
    outage: str | None = None

    def __add__(self, later: "AgentUsage") -> "AgentUsage":
        """Both together; why it ended is the later one's matter."""
        return AgentUsage(
            turns=self.turns + later.turns,
            usage=self.usage + later.usage,
            tool_calls=dict(Counter(self.tool_calls) + Counter(later.tool_calls)),
            decisions=self.decisions + later.decisions,
            stopped=later.stopped,
            outage=later.outage,
        )


@dataclass(frozen=True, kw_only=True)
class ModelAccess:
    """An open way to a model. `token` is all that an agent in a sandbox needs of it.

    `settled` is `spent` of an agent that ended or was killed: it waits, at most a moment, until no
    request is under way.
    """

    token: str
    complete: Complete
    current_usage: Callable[[], AgentUsage]
    final_usage: Callable[[], AgentUsage]


OpenModelAccess = Callable[[TokenSpec], AbstractContextManager[ModelAccess]]
"""Opens a way to a model; its token is worth nothing afterwards.

Raises:
    ModelUnavailable: the gateway does not answer.
"""

MakeGuard = Callable[[str, TokenSpec], Guard]
"""The guard for one token, from the run's id and the terms."""
