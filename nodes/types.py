"""The node types. A node is data: it says what to do, and `nodes.execute` does it."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field

from contracts.chat import joined_models
from contracts.errors import BlueprintInvalid
from contracts.run import NodeResult, NodeType, RunContext
from contracts.sandbox import Sandbox
from nodes.agents.allowed_tools import parse_allowed_tools
from nodes.agents.table import agent_rows
from nodes.field_checks import FieldChecks, is_list, place_of_caller
from nodes.outputs.terms import CommentTerms, LabelTerms, Terms

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

    place: str = field(default="", compare=False, repr=False)
    """File and line where the node is written; found out if empty."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "place", self.place or place_of_caller())
        self.checks.one_line_name()
        self.checks.text("description", self.description)
        if self.skip is not None:
            self.checks.function("skip", self.skip, "ctx")
        limit = self.timeout_s
        if limit is not None and (type(limit) not in {int, float} or not 0 < limit < math.inf):
            raise self.checks.wrong("timeout_s", limit, "above 0, or None for no limit")

    @property
    def checks(self) -> FieldChecks:
        """Checks whose messages name this node."""
        return FieldChecks("node", self.name, self.place)


@dataclass(frozen=True)
class Preflight(_NodeBase):
    """Check a requirement of the run."""

    check: NodeFunction

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_work(self.checks, "check", self.check)


@dataclass(frozen=True)
class Deterministic(_NodeBase):
    """Run fixed commands."""

    exec: NodeFunction

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_work(self.checks, "exec", self.exec)


@dataclass(frozen=True, kw_only=True)
class Agentic(_NodeBase):
    """Give a prompt to an agent. `agent` and `model` default to the run's. Of several models, the
    next is asked when one does not answer.

    `allowed_tools=None` allows every tool; see `nodes.agents.allowed_tools` for the words.
    """

    prompt: MakePrompt
    agent: str | None = None
    model: str | Sequence[str] | None = None
    allowed_tools: Sequence[str] | None = None
    max_turns: int = DEFAULT_MAX_TURNS
    max_tokens: int | None = None
    """Limit for tokens of all kinds, cache reads included. None sets no limit."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.checks.function("prompt", self.prompt, "ctx", returns=str)
        if self.agent is not None and self.agent not in agent_rows():
            raise self.checks.wrong("agent", self.agent, f"one of {', '.join(agent_rows())}")
        if isinstance(self.model, list | tuple) and self.model:
            self.checks.each("model", self.model, str, "names of models")
            object.__setattr__(self, "model", joined_models(self.model))
        if self.model is not None:
            self.checks.text("model", self.model)
        if self.allowed_tools is not None:
            self._check_tools(self.allowed_tools)
            object.__setattr__(self, "allowed_tools", tuple(self.allowed_tools))
        self.checks.count("max_turns", self.max_turns, least=1)
        if self.max_tokens is not None:
            self.checks.count("max_tokens", self.max_tokens, least=1)

    def model_or(self, default: str) -> str:
        """Return the node's model, or several with commas; the default if it names none."""
        return joined_models(self.model or default)

    def _check_tools(self, tools: Sequence[str]) -> None:
        self.checks.each("allowed_tools", tools, str, "words such as 'read'")
        try:
            parse_allowed_tools(tools)
        except BlueprintInvalid as error:
            raise self.checks.invalid(f"has an {error}") from error


@dataclass(frozen=True)
class ValidationStep:
    """One check of a validate or compete node."""

    name: str
    exec: NodeFunction
    _: KW_ONLY
    place: str = field(default="", compare=False, repr=False)

    def __post_init__(self) -> None:
        checks = FieldChecks("step", self.name, self.place or place_of_caller())
        checks.one_line_name()
        _check_work(checks, "exec", self.exec)


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
        self.checks.each("steps", self.steps, ValidationStep, "steps made with step(…)")
        object.__setattr__(self, "steps", tuple(self.steps))
        if not self.steps:
            raise self.checks.invalid("has no steps: it needs one")
        names = [step.name for step in self.steps]
        if len(set(names)) != len(names):
            raise self.checks.invalid(f"names a step twice: {names!r}")
        if not isinstance(self.on_failure, Agentic):
            raise self.checks.wrong("on_failure", self.on_failure, "an agent, made with agentic(…)")
        self.checks.count("max_retries", self.max_retries, least=0)


@dataclass(frozen=True, kw_only=True)
class Parallel(_NodeBase):
    """Run lanes of nodes at the same time in the same files. It fails if any of the nodes fails."""

    lanes: Sequence[Sequence["Node"]]

    def __post_init__(self) -> None:
        super().__post_init__()
        if not is_list(self.lanes) or not self.lanes:
            raise self.checks.wrong(
                "lanes", self.lanes, "a list with a list of nodes for each lane"
            )
        for lane in self.lanes:
            check_nodes(self.checks, "lanes", lane)
        object.__setattr__(self, "lanes", tuple(map(tuple, self.lanes)))


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

    entrants: Sequence[Agentic]
    steps: Sequence[ValidationStep]
    judge: Judge = fewest_lines_changed

    def __post_init__(self) -> None:
        super().__post_init__()
        self.checks.each("entrants", self.entrants, Agentic, "agents made with agentic(…)")
        self.checks.each("steps", self.steps, ValidationStep, "steps made with step(…)")
        self.checks.function("judge", self.judge, "ctx", "entries", returns=str)
        if len(self.entrants) < 2 or not self.steps:
            raise self.checks.invalid("needs two agents or more, and a step to judge by")
        for name in ("entrants", "steps"):
            object.__setattr__(self, name, tuple(getattr(self, name)))


@dataclass(frozen=True, kw_only=True)
class Output(_NodeBase):
    """Take what an agent proposes to do outside, within these terms.

    The host does it after the run has succeeded and its sandbox is closed. `by` names the agentic
    node; if it is None, the blueprint enters the one before.
    """

    terms: Terms
    by: str | None = None
    required: bool = False
    """The node fails if nothing is proposed, and the run if it cannot be done."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.terms.check(self.checks)
        if self.by is not None:
            self.checks.text("by", self.by)
        self.checks.flag("required", self.required)

    @property
    def is_about_issue(self) -> bool:
        """Return whether it is done on the issue that the run was started for."""
        return isinstance(self.terms, CommentTerms | LabelTerms) and self.terms.on == "issue"


Node = Preflight | Deterministic | Agentic | Validate | Parallel | Compete | Output

NODE_TYPES: dict[type[Node], NodeType] = {
    Preflight: "preflight",
    Deterministic: "deterministic",
    Agentic: "agentic",
    Validate: "validate",
    Parallel: "parallel",
    Compete: "compete",
    Output: "output",
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
            return tuple(node.entrants)
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


def check_nodes(checks: FieldChecks, name: str, nodes: object) -> None:
    """Check a list of nodes.

    Raises:
        BlueprintInvalid: it is no list, it is empty, or something in it is no node.
    """
    if is_list(nodes) and not nodes:
        raise checks.invalid(f"has no {name} or an empty one: it needs at least one node")
    checks.each(name, nodes, _NodeBase, "nodes, made with deterministic(…), agentic(…) and so on")


def _check_work(checks: FieldChecks, name: str, work: object) -> None:
    checks.function(name, work, "ctx", "sandbox", returns=NodeResult)
