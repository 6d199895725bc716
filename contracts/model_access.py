"""Access of one agent to its model: the token's limits, its usage, and how to call the model."""

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from contracts.chat import Complete, Usage
from contracts.run import DecisionCounts
from contracts.tool import Effect, Guard, McpEndpoint

DENIED_TOOL = "denied"
"""Replaces the name of a tool call that the gateway denied; arguments are `call` and `reason`."""

BUDGET_EXCEEDED = "budget_exceeded"
"""Stop reason of a reply that the gateway made without the model because a limit was reached."""

_WITHHELD = ("content_filter", "refusal")

INTERNAL_AGENT = "harness"
"""Agent name for model calls by Harness itself. Their tool calls pass no guard in the gateway."""


@dataclass(frozen=True, kw_only=True)
class GuardBounds:
    """Limits for an agent's guard, in addition to the allowed tools. Set only by the user.

    `taint` names the untrusted origins that the agent sees. `protected` and `secret` are file
    patterns, `hosts` are the hosts that egress reaches. `changes` are patterns of protected files
    that `--allow-change` or the blueprint permits to change; an intent permits nothing. With
    `ask`, a denied call becomes an approval, and the agent waits for it up to `wait_s` seconds.
    `mentioned` are names of files in the user's own intent, which a question only shows. `effects`
    are the declared effects of tools of MCP servers, by `SERVER:TOOL`.
    """

    taint: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()
    secret: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    ask: bool = False
    wait_s: float = 0.0
    mentioned: tuple[str, ...] = ()
    effects: Mapping[str, Effect] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class HostTools:
    """Tools on the host that an agent reaches through the gateway.

    `prefix` is what the agent puts before their names when its model calls them.
    """

    endpoint: McpEndpoint
    prefix: str


@dataclass(frozen=True, kw_only=True)
class TokenSpec:
    """Permissions and limits of a gateway token: one agent, and one model or several with commas.

    `allowed_tools` uses the words of `nodes.agents.allowed_tools`; None allows every tool. Without
    `bounds` only the allowed tools are checked. A limit of None means no limit; the run's budget
    always applies. `read` lists files with secrets that this conversation has shown already.
    `tools` are offered to an agent in a sandbox at the gateway's `/mcp`.
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
    tools: HostTools | None = None


class _Limits(Protocol):
    @property
    def turns(self) -> int | None: ...
    @property
    def tokens(self) -> int | None: ...
    @property
    def cost_usd(self) -> float | None: ...


def limit_reached(limits: _Limits, turns: int, usage: Usage, *, in_flight: int = 0) -> str | None:
    """Return a message for the first limit that is reached, or None.

    Model calls that are `in_flight` count as turns.
    """
    used = describe_usage(turns, usage)
    # Parallel requests are counted before they end, or all of them would pass the last turn.
    if limits.turns is not None and turns + in_flight >= limits.turns:
        return f"turn limit of {limits.turns} reached: {used}"
    # Tokens are known after a reply only, so the last reply may exceed the limit.
    if limits.tokens is not None and usage.total >= limits.tokens:
        return f"token limit of {limits.tokens} reached: {used}"
    if limits.cost_usd is not None and usage.cost_usd >= limits.cost_usd:
        return f"budget exceeded: ${usage.cost_usd:.4f} of ${limits.cost_usd:g}: {used}"
    return None


def describe_usage(turns: int, usage: Usage) -> str:
    """Return the usage as error messages show it."""
    return f"spent {turns} turns, {usage.total} tokens, ${usage.cost_usd:.4f}"


def refusal(stop_reason: str) -> str | None:
    """Return a message if the model, or a filter of its provider, withheld the answer."""
    if stop_reason not in _WITHHELD:
        return None
    return f"the model refused, or its answer was filtered ({stop_reason})"


@dataclass(frozen=True, kw_only=True)
class AgentUsage:
    """Everything that was counted under one token.

    `answers` counts the turns by model. `stopped` is the limit that was reached. `outage` is the
    reason why the last model call failed, and `refused` the reason why its answer was withheld.
    """

    turns: int = 0
    usage: Usage = field(default_factory=Usage)
    answers: Mapping[str, int] = field(default_factory=dict)
    tool_calls: Mapping[str, int] = field(default_factory=dict)
    decisions: DecisionCounts = field(default_factory=DecisionCounts)
    stopped: str | None = None
    outage: str | None = None
    refused: str | None = None

    def __add__(self, later: "AgentUsage") -> "AgentUsage":
        """Return the sum; `stopped`, `outage` and `refused` are those of the later one."""
        return AgentUsage(
            turns=self.turns + later.turns,
            usage=self.usage + later.usage,
            answers=dict(Counter(self.answers) + Counter(later.answers)),
            tool_calls=dict(Counter(self.tool_calls) + Counter(later.tool_calls)),
            decisions=self.decisions + later.decisions,
            stopped=later.stopped,
            outage=later.outage,
            refused=later.refused,
        )


@dataclass(frozen=True, kw_only=True)
class ModelAccess:
    """Open access to a model. An agent inside a sandbox needs only the `token`.

    `final_usage` is for an agent that has ended: it waits briefly until no request is in flight.
    """

    token: str
    complete: Complete
    current_usage: Callable[[], AgentUsage]
    final_usage: Callable[[], AgentUsage]
    context_tokens: int | None = None
    """Tokens that the model can hold; None if that is not known."""


OpenModelAccess = Callable[[TokenSpec], AbstractContextManager[ModelAccess]]
"""Open access to a model; the token is revoked at the end of the `with` block.

Raises:
    ModelUnavailable: the gateway does not answer.
"""

MakeGuard = Callable[[str, TokenSpec], Guard]
"""Return the guard of one token, from the run id and the token's spec."""
