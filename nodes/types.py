"""The four node types. A node is data: what to do, never how it is run."""

from collections.abc import Callable
from dataclasses import dataclass

from contracts.errors import BlueprintInvalid
from contracts.run import NodeResult, NodeType, RunContext
from contracts.sandbox import Sandbox

Work = Callable[[RunContext, Sandbox], NodeResult]
Condition = Callable[[RunContext], bool]
Prompt = Callable[[RunContext], str]

DEFAULT_MAX_RETRIES = 2


@dataclass(frozen=True, kw_only=True)
class _Common:
    name: str
    description: str
    skip: Condition | None = None
    """The node is skipped when this is true of the context."""
    timeout_s: float | None = None
    """The node's commands and agents together may take this long. None: no limit of its own."""

    def __post_init__(self) -> None:
        if not self.name.strip():
            raise BlueprintInvalid("a node has an empty name: give each node a name of its own")
        if self.timeout_s is not None and self.timeout_s <= 0:
            raise BlueprintInvalid(
                f"node {self.name!r} has timeout_s={self.timeout_s!r}: it must be above 0, "
                "or None for no limit"
            )


@dataclass(frozen=True, kw_only=True)
class Preflight(_Common):
    """Is everything there that the run needs?"""

    check: Work


@dataclass(frozen=True, kw_only=True)
class Deterministic(_Common):
    """Exact commands."""

    exec: Work


@dataclass(frozen=True, kw_only=True)
class Agentic(_Common):
    """An agent decides. `agent` and `model` default to the run's own.

    `allowed_tools=None` allows every tool; see `nodes.agents.allowed` for the words.
    """

    prompt: Prompt
    agent: str | None = None
    model: str | None = None
    allowed_tools: tuple[str, ...] | None = None
    max_turns: int = 50


@dataclass(frozen=True, kw_only=True)
class Step:
    """One check of a validate node."""

    name: str
    exec: Work


@dataclass(frozen=True, kw_only=True)
class Validate(_Common):
    """Run the steps; while any fails let `on_failure` fix, then run them all again.

    The steps run at most `max_retries + 1` times.
    """

    steps: tuple[Step, ...]
    on_failure: Agentic
    max_retries: int = DEFAULT_MAX_RETRIES

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.steps:
            raise BlueprintInvalid(f"validate node {self.name!r} has no steps: it needs one")
        names = [step.name for step in self.steps]
        if len(set(names)) != len(names):
            raise BlueprintInvalid(f"validate node {self.name!r} names a step twice: {names!r}")
        if self.max_retries < 0:
            raise BlueprintInvalid(
                f"validate node {self.name!r} has max_retries={self.max_retries!r}: "
                "it must be 0 or more"
            )


Node = Preflight | Deterministic | Agentic | Validate

NODE_TYPES: dict[type[Node], NodeType] = {
    Preflight: "preflight",
    Deterministic: "deterministic",
    Agentic: "agentic",
    Validate: "validate",
}
"""The word for each node type in reports, logs and tags."""
