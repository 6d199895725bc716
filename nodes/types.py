"""The node types. A node is data: what to do, never how it is run."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from contracts.errors import BlueprintInvalid
from contracts.run import NodeResult, NodeType, RunContext
from contracts.sandbox import Sandbox

NodeFunction = Callable[[RunContext, Sandbox], NodeResult]
SkipCondition = Callable[[RunContext], bool]
MakePrompt = Callable[[RunContext], str]

DEFAULT_MAX_RETRIES = 2
DEFAULT_MAX_TURNS = 50


@dataclass(frozen=True, kw_only=True)
class _Common:
    name: str
    description: str
    skip: SkipCondition | None = None
    """The node is skipped when this is true of the context."""
    timeout_s: float | None = None
    """The node's commands and agents together may take this long. None: no limit of its own."""

    def __post_init__(self) -> None:
        _check_name("node", self.name)
        if self.timeout_s is not None and not 0 < self.timeout_s < math.inf:
            raise BlueprintInvalid(
                f"node {self.name!r} has timeout_s={self.timeout_s!r}: it must be above 0, "
                "or None for no limit"
            )


@dataclass(frozen=True, kw_only=True)
class Preflight(_Common):
    """Is everything there that the run needs?"""

    check: NodeFunction


@dataclass(frozen=True, kw_only=True)
class Deterministic(_Common):
    """Exact commands."""

    exec: NodeFunction


@dataclass(frozen=True, kw_only=True)
class Agentic(_Common):
    """An agent decides. `agent` and `model` default to the run's own.

    `allowed_tools=None` allows every tool; see `nodes.agents.allowed_tools` for the words.
    """

    prompt: MakePrompt
    agent: str | None = None
    model: str | None = None
    allowed_tools: tuple[str, ...] | None = None
    max_turns: int = DEFAULT_MAX_TURNS
    max_tokens: int | None = None
    """Tokens of all kinds, cache reads included, after which it stops; None: no such limit."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_count(self.name, "max_turns", self.max_turns, least=1)
        if self.max_tokens is not None:
            _check_count(self.name, "max_tokens", self.max_tokens, least=1)


@dataclass(frozen=True, kw_only=True)
class ValidationStep:
    """One check of a validate node."""

    name: str
    exec: NodeFunction

    def __post_init__(self) -> None:
        _check_name("step", self.name)


@dataclass(frozen=True, kw_only=True)
class Validate(_Common):
    """Run the steps; while any fails let `on_failure` fix, then run them all again.

    The steps run at most `max_retries + 1` times.
    """

    steps: tuple[ValidationStep, ...]
    on_failure: Agentic
    max_retries: int = DEFAULT_MAX_RETRIES

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.steps:
            raise BlueprintInvalid(f"validate node {self.name!r} has no steps: it needs one")
        names = [step.name for step in self.steps]
        if len(set(names)) != len(names):
            raise BlueprintInvalid(f"validate node {self.name!r} names a step twice: {names!r}")
        _check_count(self.name, "max_retries", self.max_retries, least=0)


@dataclass(frozen=True, kw_only=True)
class Parallel(_Common):
    """Lanes of nodes, at the same time and in the same files; fails when any node in them does."""

    lanes: tuple[tuple["Node", ...], ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.lanes or not all(self.lanes):
            raise BlueprintInvalid(f"parallel node {self.name!r} has an empty lane, or none")


@dataclass(frozen=True, kw_only=True)
class CompeteEntry:
    """What one agent of a compete node made: its results and its checks', lines changed.

    `lines` are infinite where nobody can count them.
    """

    name: str
    results: Mapping[str, NodeResult]
    lines: float

    @property
    def passed(self) -> bool:
        """True when neither the agent nor a check failed."""
        return all(result.status != "failure" for result in self.results.values())


Judge = Callable[[RunContext, Sequence[CompeteEntry]], str]
"""Names the winner among the entries that passed; there is at least one."""


def fewest_lines_changed(_: RunContext, entries: Sequence[CompeteEntry]) -> str:
    """The default judge: the fewest lines changed; of equals, the first."""
    return min(entries, key=lambda entry: entry.lines).name


@dataclass(frozen=True, kw_only=True)
class Compete(_Common):
    """Agents that do the same in forks of the files; the run goes on with the winner's."""

    entrants: tuple[Agentic, ...]
    steps: tuple[ValidationStep, ...]
    judge: Judge = fewest_lines_changed

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.entrants) < 2 or not self.steps:
            raise BlueprintInvalid(
                f"compete node {self.name!r} needs two agents or more, and a step to judge by"
            )


Node = Preflight | Deterministic | Agentic | Validate | Parallel | Compete


def inner_nodes(node: Node) -> tuple[Node, ...]:
    """The nodes inside a node, at any depth, that have a line of their own in a report."""
    match node:
        case Validate():
            return (node.on_failure,)
        case Parallel():
            return tuple(n for lane in node.lanes for top in lane for n in (top, *inner_nodes(top)))
        case Compete():
            return node.entrants
        case _:
            return ()


def step_names(node: Node) -> tuple[str, ...]:
    """The names under which later nodes find the results of a node's own steps."""
    match node:
        case Validate():
            return tuple(step_name(node, step.name) for step in node.steps)
        case Compete():
            return tuple(step_name(one, s.name) for one in node.entrants for s in node.steps)
        case _:
            return ()


def step_name(node: Node, step: str) -> str:
    """The name under which a later node finds a step's result in `ctx.results`."""
    return f"{node.name}/{step}"


def _check_name(what: str, name: str) -> None:
    if not name.strip():
        raise BlueprintInvalid(f"a {what} has an empty name: give each {what} a name of its own")
    if not name.isprintable():
        raise BlueprintInvalid(
            f"a {what} is called {name!r}: a name is one line without control characters"
        )


def _check_count(node: str, what: str, count: int, *, least: int) -> None:
    if type(count) is not int or count < least:
        raise BlueprintInvalid(
            f"node {node!r} has {what}={count!r}: it must be a whole number, {least} or more"
        )


NODE_TYPES: dict[type[Node], NodeType] = {
    Preflight: "preflight",
    Deterministic: "deterministic",
    Agentic: "agentic",
    Validate: "validate",
    Parallel: "parallel",
    Compete: "compete",
}
"""The word for each node type in reports, logs and tags."""
