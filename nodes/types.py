"""The node types. A node is data: it says what to do, and `nodes.execute` does it."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass

from contracts.errors import BlueprintInvalid
from contracts.run import NodeResult, NodeType, RunContext
from contracts.sandbox import Sandbox

NodeFunction = Callable[[RunContext, Sandbox], NodeResult]
SkipCondition = Callable[[RunContext], bool]
MakePrompt = Callable[[RunContext], str]

DEFAULT_MAX_RETRIES = 2
DEFAULT_MAX_TURNS = 50


@dataclass(frozen=True)
class _NodeBase:
    name: str
    description: str
    _: KW_ONLY
    skip: SkipCondition | None = None
    """The node is skipped if this returns True."""
    timeout_s: float | None = None
    """Time limit for all commands and agents of the node together. None sets no limit."""

    def __post_init__(self) -> None:
        _check_name("node", self.name)
        if self.timeout_s is not None and not 0 < self.timeout_s < math.inf:
            raise BlueprintInvalid(
                f"node {self.name!r} has timeout_s={self.timeout_s!r}: it must be above 0, "
                "or None for no limit"
            )


@dataclass(frozen=True)
class Preflight(_NodeBase):
    """Check a requirement of the run."""

    check: NodeFunction


@dataclass(frozen=True)
class Deterministic(_NodeBase):
    """Run fixed commands."""

    exec: NodeFunction


@dataclass(frozen=True, kw_only=True)
class Agentic(_NodeBase):
    """Give a prompt to an agent. `agent` and `model` default to the run's.

    `allowed_tools=None` allows every tool; see `nodes.agents.allowed_tools` for the words.
    """

    prompt: MakePrompt
    agent: str | None = None
    model: str | None = None
    allowed_tools: Sequence[str] | None = None
    max_turns: int = DEFAULT_MAX_TURNS
    max_tokens: int | None = None
    """Limit for tokens of all kinds, cache reads included. None sets no limit."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.allowed_tools is not None:
            object.__setattr__(self, "allowed_tools", tuple(self.allowed_tools))
        _check_count(self.name, "max_turns", self.max_turns, least=1)
        if self.max_tokens is not None:
            _check_count(self.name, "max_tokens", self.max_tokens, least=1)


@dataclass(frozen=True)
class ValidationStep:
    """One check of a validate or compete node."""

    name: str
    exec: NodeFunction

    def __post_init__(self) -> None:
        _check_name("step", self.name)


@dataclass(frozen=True, kw_only=True)
class Validate(_NodeBase):
    """Run all steps. While one fails, run the agent `on_failure` and then all steps again.

    The steps run at most `max_retries + 1` times.
    """

    steps: Sequence[ValidationStep]
    on_failure: Agentic
    max_retries: int = DEFAULT_MAX_RETRIES

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "steps", tuple(self.steps))
        if not self.steps:
            raise BlueprintInvalid(f"validate node {self.name!r} has no steps: it needs one")
        names = [step.name for step in self.steps]
        if len(set(names)) != len(names):
            raise BlueprintInvalid(f"validate node {self.name!r} names a step twice: {names!r}")
        _check_count(self.name, "max_retries", self.max_retries, least=0)


@dataclass(frozen=True, kw_only=True)
class Parallel(_NodeBase):
    """Run lanes of nodes at the same time in the same files. It fails if any of the nodes fails."""

    lanes: tuple[tuple["Node", ...], ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.lanes or not all(self.lanes):
            raise BlueprintInvalid(
                f"parallel node {self.name!r} has no lanes or an empty lane: give each lane a node"
            )


@dataclass(frozen=True, kw_only=True)
class CompeteEntry:
    """Work of one agent of a compete node: results of the agent and its steps, lines changed.

    `lines` is infinite if git cannot count them.
    """

    name: str
    results: Mapping[str, NodeResult]
    lines: float

    @property
    def passed(self) -> bool:
        """True if neither the agent nor a step failed."""
        return all(result.status != "failure" for result in self.results.values())


Judge = Callable[[RunContext, Sequence[CompeteEntry]], str]
"""Return the name of the winner among the entries that passed; there is at least one."""


def fewest_lines_changed(_: RunContext, entries: Sequence[CompeteEntry]) -> str:
    """The default judge: the entry with the fewest changed lines wins, the first one of equals."""
    return min(entries, key=lambda entry: entry.lines).name


@dataclass(frozen=True, kw_only=True)
class Compete(_NodeBase):
    """Run several agents on forks of the files, and continue with the winner's files."""

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

NODE_TYPES: dict[type[Node], NodeType] = {
    Preflight: "preflight",
    Deterministic: "deterministic",
    Agentic: "agentic",
    Validate: "validate",
    Parallel: "parallel",
    Compete: "compete",
}
"""The type of a node in reports, logs and tags."""


def inner_nodes(node: Node) -> tuple[Node, ...]:
    """Return all nodes inside a node, at any depth. Reports show each of them."""
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
    """Return the keys of the results of a node's own steps in `ctx.results`."""
    match node:
        case Validate():
            return tuple(step_name(node, step.name) for step in node.steps)
        case Compete():
            return tuple(step_name(one, s.name) for one in node.entrants for s in node.steps)
        case _:
            return ()


def step_name(node: Node, step: str) -> str:
    """Return the key of a step's result in `ctx.results`, such as `check/test`."""
    return f"{node.name}/{step}"


def _check_name(kind: str, name: str) -> None:
    if not name.strip():
        raise BlueprintInvalid(f"a {kind} has an empty name: give each {kind} a name of its own")
    if not name.isprintable():
        raise BlueprintInvalid(
            f"a {kind} is called {name!r}: a name is one line without control characters"
        )


def _check_count(node: str, field: str, count: int, *, least: int) -> None:
    if type(count) is not int or count < least:
        raise BlueprintInvalid(
            f"node {node!r} has {field}={count!r}: it must be a whole number, {least} or more"
        )
