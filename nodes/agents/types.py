"""What an agent is: a function from a task and a sandbox to a result."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from contracts.chat import Usage
from contracts.model_access import TokenSpec, describe_usage, limit_reached
from contracts.run import DecisionCounts, NodeResult
from contracts.sandbox import Sandbox
from contracts.toolbox import Toolbox
from nodes.agents.conversation import Conversation, SaveConversation, StillCurrent
from nodes.types import DEFAULT_MAX_TURNS

DEFAULT_TIME_S = 1800.0
"""How long an agent may take when its node sets no limit."""


@dataclass(frozen=True, kw_only=True)
class AgentLimits:
    """What one agent may spend; None means no limit of that kind."""

    turns: int | None = DEFAULT_MAX_TURNS
    """Calls of the model."""
    tokens: int | None = None
    """Tokens of all kinds, cache reads included."""
    cost_usd: float | None = None
    time_s: float | None = DEFAULT_TIME_S

    def reached(self, *, turns: int, usage: Usage, elapsed_s: float) -> str | None:
        """The first limit that is reached and what was spent, or None while there is room."""
        reached = limit_reached(self, turns, usage)
        if reached is None and self.time_s is not None and elapsed_s >= self.time_s:
            reached = f"time limit of {self.time_s:g} s reached: {describe_usage(turns, usage)}"
        return None if reached is None else f"{reached}, {elapsed_s:.1f} s"


def _forget(_: Conversation, __: StillCurrent) -> None:
    pass


@dataclass(frozen=True, kw_only=True)
class AgentTask:
    """What an agent is asked to do.

    `system` is added to the agent's own system prompt. `allowed_tools` are the words and
    patterns of `allowed.py`; None allows all tools.
    """

    node: str
    prompt: str
    model: str
    system: str = ""
    allowed_tools: Sequence[str] | None = None
    limits: AgentLimits = field(default_factory=AgentLimits)
    online: bool = False
    """Whether its commands have a way out of the sandbox."""
    toolbox: Toolbox | None = None
    """Tools from the host, offered as far as `allowed_tools` says `playbooks`."""
    conversation: Conversation | None = None
    """The conversation to go on with; `limits` hold for all of it. None begins one."""
    secret_files_read: tuple[str, ...] = ()
    """Files with secrets that this conversation showed before."""
    save_conversation: SaveConversation = _forget
    """Is given the conversation whenever no tool is at work."""


@dataclass(frozen=True, kw_only=True)
class AgentResult:
    """How an agent ended. A failure always says why in `error`.

    `output` is the last thing the agent said. `tool_calls` counts calls by tool name,
    refused and malformed ones too.
    """

    status: Literal["success", "failure"]
    output: str = ""
    error: str | None = None
    turns: int = 0
    usage: Usage = field(default_factory=Usage)
    duration_ms: int = 0
    tool_calls: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    decisions: DecisionCounts = field(default_factory=DecisionCounts)
    conversation: Conversation | None = None
    """The conversation, if the agent finished but was denied a call that a person may still
    approve; else None."""

    def as_node_result(self) -> NodeResult:
        """The same as the result of a node."""
        return NodeResult(
            status=self.status,
            output=self.output,
            error=self.error,
            duration_ms=self.duration_ms,
            usage=self.usage,
            turns=self.turns,
            tool_calls=dict(self.tool_calls),
            decisions=self.decisions,
        )


def token_spec(agent: str, task: AgentTask) -> TokenSpec:
    """What the token for this task is worth: what a conversation took before is off its limits."""
    limits, allowed = task.limits, task.allowed_tools
    before = (task.conversation or Conversation()).spent
    return TokenSpec(
        node=task.node,
        agent=agent,
        model=task.model,
        allowed_tools=None if allowed is None else tuple(allowed),
        read=task.secret_files_read,
        turns=None if limits.turns is None else limits.turns - before.turns,
        tokens=None if limits.tokens is None else limits.tokens - before.usage.total,
        cost_usd=None if limits.cost_usd is None else limits.cost_usd - before.usage.cost_usd,
    )


Agent = Callable[[AgentTask, Sandbox], AgentResult]
"""Works in the sandbox until it is done or a limit is reached.

Raises:
    ModelUnavailable, SandboxLost: an outage, never a failed agent.
    BlueprintInvalid: `allowed_tools` holds what no agent understands.
"""

OnLine = Callable[[str], None]
"""Takes one short line about what the agent says or does, as it happens."""
