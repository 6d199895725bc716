"""Data of one run: the context of its nodes, their results, and the report."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Literal

from contracts.agents import NATIVE
from contracts.chat import Usage
from contracts.installs import Installs
from contracts.verdicts import Verdicts

NodeStatus = Literal["success", "failure", "skipped"]
NodeType = Literal[
    "preflight", "deterministic", "agentic", "validate", "parallel", "compete", "output"
]
RunStatus = Literal["success", "failure", "cancelled", "waiting"]

_ATTEMPT = " (attempt "


def attempt_name(name: str, number: int) -> str:
    """Return the name of one attempt at a step or fix, such as `check/test (attempt 2)`."""
    return f"{name}{_ATTEMPT}{number})"


def without_attempt(name: str) -> str:
    """Return the name of the step or fix without the attempt's number."""
    return name.partition(_ATTEMPT)[0]


def is_attempt(name: str) -> bool:
    """Return True if the name has the form of an attempt's name, which nodes may not have."""
    # From the right: a name may itself contain an attempt's mark.
    head, mark, number = name.rpartition(_ATTEMPT)
    return bool(head and mark) and number.removesuffix(")").isdigit()


@dataclass(frozen=True, kw_only=True)
class DecisionCounts:
    """Number of tool calls that the guard allowed and denied."""

    allowed: int = 0
    denied: int = 0

    def __add__(self, other: "DecisionCounts") -> "DecisionCounts":
        return DecisionCounts(
            allowed=self.allowed + other.allowed, denied=self.denied + other.denied
        )


@dataclass(frozen=True, kw_only=True)
class NodeResult:
    """Result of a node. A failure always has an `error`.

    `output` is text for later nodes, prompts and people. Only validate nodes set `attempts`. Only
    parallel and compete nodes set `lanes`: the results of their inner nodes by name. `usage`,
    `turns`, `answers` (turns by model), `tool_calls` (number of calls by tool) and `decisions`
    describe agents. `facts` are
    for later nodes; agents cannot set them. `tests` are the results of the project's tests if the
    node ran them and their runner tells results by test. `lacks` is what the sandbox does not
    have, if that is why the node failed: programs, packages, package indexes, a display. `remark`
    is one line for people about a success, such as that the tests hang.
    """

    status: NodeStatus
    output: str = ""
    error: str | None = None
    duration_ms: int = 0
    attempts: tuple["Attempt", ...] = ()
    lanes: Mapping[str, "NodeResult"] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)
    turns: int = 0
    answers: Mapping[str, int] = field(default_factory=dict)
    tool_calls: Mapping[str, int] = field(default_factory=dict)
    decisions: DecisionCounts = field(default_factory=DecisionCounts)
    facts: Mapping[str, str] = field(default_factory=dict)
    tests: Verdicts | None = None
    lacks: tuple[str, ...] = ()
    remark: str = ""

    @classmethod
    def success(cls, output: str = "") -> "NodeResult":
        return cls(status="success", output=output)

    @classmethod
    def failure(cls, error: str, output: str = "") -> "NodeResult":
        return cls(status="failure", error=error, output=output)

    @classmethod
    def skipped(cls, reason: str = "") -> "NodeResult":
        return cls(status="skipped", output=reason)


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One round of a validate node: the results of its steps, and of the fix that followed."""

    number: int
    steps: Mapping[str, NodeResult]
    fix: NodeResult | None = None


@dataclass(frozen=True, kw_only=True)
class RunContext:
    """The run as a node sees it. It is immutable: each result makes a new context.

    `work_dir` is the workspace inside the sandbox. `options` come from `--set name=value`.
    `memory` and `rules`, what the repository's rule files say, are added to the system prompt of
    every agent. `env` is set for every command that
    nodes run in the sandbox. `installs` is None where nothing is kept and nothing can be fetched.
    """

    run_id: str
    work_dir: str
    intent: str = ""
    repo: str = ""
    push: bool = False
    agent: str = NATIVE
    model: str = ""
    memory: str = ""
    rules: str = ""
    env: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    options: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    results: Mapping[str, NodeResult] = field(default_factory=lambda: MappingProxyType({}))
    installs: Installs | None = None

    def with_result(self, name: str, result: NodeResult) -> "RunContext":
        """Return a new context with the result added under `name`."""
        return replace(self, results=MappingProxyType({**self.results, name: result}))


@dataclass(frozen=True, kw_only=True)
class NodeReport:
    """One node in a run's report.

    `raised` is True if an exception ended the node, or a node inside it; `error` names it. `lacks`
    is what the sandbox does not have, if that is why the node failed. `remark` is one line about a
    success.
    """

    name: str
    type: NodeType
    status: NodeStatus
    output: str = ""
    error: str | None = None
    duration_ms: int = 0
    attempts: tuple[Attempt, ...] = ()
    usage: Usage = field(default_factory=Usage)
    turns: int = 0
    answers: Mapping[str, int] = field(default_factory=dict)
    tool_calls: Mapping[str, int] = field(default_factory=dict)
    decisions: DecisionCounts = field(default_factory=DecisionCounts)
    raised: bool = False
    tests: Verdicts | None = None
    lacks: tuple[str, ...] = ()
    remark: str = ""


@dataclass(frozen=True, kw_only=True)
class DiffStat:
    """Size of a run's change."""

    files: int = 0
    insertions: int = 0
    deletions: int = 0

    def __str__(self) -> str:
        files = "1 file" if self.files == 1 else f"{self.files} files"
        return f"{files}, +{self.insertions} -{self.deletions}"


@dataclass(frozen=True, kw_only=True)
class SurfacedMemory:
    """Ids of the memory entries that were shown to the run's agents."""

    playbooks: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ChecksReport:
    """Results of a forge's checks of the pushed commit.

    `none`: the forge has no checks of it. `unknown`: the forge cannot be asked. `round` counts the
    rounds in which an agent mended what had failed, of at most `rounds`; `failed` names the checks.
    `goes_on` is true while checks run, or if another round follows.
    """

    state: Literal["running", "passed", "failed", "none", "unknown"]
    round: int = 0
    rounds: int = 0
    failed: tuple[str, ...] = ()
    goes_on: bool = False

    def __str__(self) -> str:
        names = f": {', '.join(self.failed)}" if self.failed else ""
        rounds = f" (round {self.round} of {self.rounds})" if self.round else ""
        return f"{self.state}{names}{rounds}"


@dataclass(frozen=True, kw_only=True)
class OutputReport:
    """One proposed output of an agent, and its state.

    `proposed`: it is not done, or not yet; `reason` says why. `refused`: it will not be done.
    `done`: `reason` says what of it was left out, `page` where it can be seen.
    """

    node: str
    status: Literal["proposed", "done", "refused"]
    about: str = ""
    page: str = ""
    reason: str = ""

    def __str__(self) -> str:
        seen = f" ({self.page})" if self.page else ""
        why = f": {self.reason}" if self.reason else ""
        return f"{self.status}{why}{': ' if self.about else ''}{self.about}{seen}"


@dataclass(frozen=True, kw_only=True)
class RunReport:
    """Outcome of a run, and the JSON that `harness run --json` prints. Field names are public.

    `failed_node` is the top-level node that ended the run by a failure or an exception. It is None
    if no node did: after an outage, a cancellation, or while the run waits for an approval.
    """

    run_id: str
    blueprint: str
    status: RunStatus
    nodes: tuple[NodeReport, ...] = ()
    flow_run_id: str | None = None
    flow_run_url: str | None = None
    repo: str = ""
    intent: str = ""
    agent: str = NATIVE
    model: str = ""
    started_at: str = ""
    total_duration_ms: int = 0
    token_usage: Usage = field(default_factory=Usage)
    cost_usd: float = 0.0
    branch: str | None = None
    base_commit: str | None = None
    commit: str | None = None
    pushed: bool = False
    pull_request: str | None = None
    checks: ChecksReport | None = None
    outputs: tuple[OutputReport, ...] = ()
    diff_stat: DiffStat = field(default_factory=DiffStat)
    surfaced: SurfacedMemory = field(default_factory=SurfacedMemory)
    decisions: DecisionCounts = field(default_factory=DecisionCounts)
    notices: tuple[str, ...] = ()
    failed_node: str | None = None
    error: str | None = None

    @property
    def waits_for_checks(self) -> bool:
        """True if only the forge's checks, or a round about them, keep the run from its end."""
        return self.status == "waiting" and self.checks is not None and self.checks.goes_on
