"""One run: what its nodes are given, what each gives back, and the report at the end."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Literal

from contracts.agents import NATIVE
from contracts.chat import Usage

NodeStatus = Literal["success", "failure", "skipped"]
NodeType = Literal["preflight", "deterministic", "agentic", "validate", "parallel", "compete"]
RunStatus = Literal["success", "failure", "cancelled", "waiting"]


@dataclass(frozen=True, kw_only=True)
class DecisionCounts:
    """How many tool calls the guard let through and how many it refused."""

    allowed: int = 0
    denied: int = 0

    def __add__(self, other: "DecisionCounts") -> "DecisionCounts":
        return DecisionCounts(
            allowed=self.allowed + other.allowed, denied=self.denied + other.denied
        )


@dataclass(frozen=True, kw_only=True)
class NodeResult:
    """How a node ended. A failure always says why in `error`.

    `output` is for later nodes, prompts and people. `attempts` is filled by validate nodes
    only, `lanes` by those with nodes beside each other: the results of these by name. `usage`,
    `turns`, `tool_calls` (calls by tool name) and `decisions` are of agentic ones. `facts` are
    what later nodes go by, and no agent can say.
    """

    status: NodeStatus
    output: str = ""
    error: str | None = None
    duration_ms: int = 0
    attempts: tuple["Attempt", ...] = ()
    lanes: Mapping[str, "NodeResult"] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)
    turns: int = 0
    tool_calls: Mapping[str, int] = field(default_factory=dict)
    decisions: DecisionCounts = field(default_factory=DecisionCounts)
    facts: Mapping[str, str] = field(default_factory=dict)

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
    """One round of a validate node: its steps' results and the fix that followed, if any."""

    number: int
    steps: Mapping[str, NodeResult]
    fix: NodeResult | None = None


@dataclass(frozen=True, kw_only=True)
class RunContext:
    """What a node may know of its run. Frozen: each result makes a new one.

    `work_dir` is the workspace inside the sandbox. `options` are the run's `--set k=v`.
    `memory` is what worked before on tasks like this, for every agent's prompt. `env` is
    passed to every command of ours in the sandbox.
    """

    run_id: str
    work_dir: str
    intent: str = ""
    repo: str = ""
    push: bool = False
    agent: str = NATIVE
    model: str = ""
    memory: str = ""
    env: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    options: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    results: Mapping[str, NodeResult] = field(default_factory=lambda: MappingProxyType({}))

    def with_result(self, name: str, result: NodeResult) -> "RunContext":
        """The same context with one more result, under `name`."""
        return replace(self, results=MappingProxyType({**self.results, name: result}))


@dataclass(frozen=True, kw_only=True)
class NodeReport:
    """One line of a run's report: a node and how it ended.

    `raised` is true of a node that ended the run with an exception instead of a result, and of
    the node around it; `error` then names the exception.
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
    tool_calls: Mapping[str, int] = field(default_factory=dict)
    decisions: DecisionCounts = field(default_factory=DecisionCounts)
    raised: bool = False


@dataclass(frozen=True, kw_only=True)
class DiffStat:
    """How much a run changed."""

    files: int = 0
    insertions: int = 0
    deletions: int = 0

    def __str__(self) -> str:
        files = "1 file" if self.files == 1 else f"{self.files} files"
        return f"{files}, +{self.insertions} -{self.deletions}"


@dataclass(frozen=True, kw_only=True)
class SurfacedMemory:
    """Ids of what memory showed the run."""

    playbooks: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class RunReport:
    """What `harness run --json` prints; its fields are the CLI's contract (ARCHITECTURE.md).

    `failed_node` is the top-level node of the blueprint that ended the run by failing or by
    raising an exception. None if no node did: an outage or a person stopped the run, or it waits
    for an approval.
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
    diff_stat: DiffStat = field(default_factory=DiffStat)
    surfaced: SurfacedMemory = field(default_factory=SurfacedMemory)
    decisions: DecisionCounts = field(default_factory=DecisionCounts)
    notices: tuple[str, ...] = ()
    failed_node: str | None = None
    error: str | None = None
