"""What memory holds: playbooks, their lessons, and how it went when they were followed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from typing import Literal, NamedTuple

from contracts.chat import Embed
from memory.confidence import wilson_lower_bound

PlaybookStatus = Literal["draft", "active", "archived"]
Outcome = Literal["success", "partial", "failure", "pending", "neutral"]
ResultGroup = Literal["proven", "mixed", "untested", "failed"]
SearchArm = Literal["words", "vectors"]


@dataclass(frozen=True, kw_only=True)
class PlaybookStep:
    """One step of a procedure; `fallback` says what to do when `expected` does not happen.

    `order` counts from 1. Steps are kept in its order; 0 means the place in the list.
    """

    action: str
    order: int = 0
    tool: str = ""
    tool_args: Mapping[str, object] = field(default_factory=dict)
    expected: str = ""
    fallback: str = ""


@dataclass(frozen=True, kw_only=True)
class PlaybookContent:
    """What a person or an agent writes of a playbook; all of it can be changed and undone.

    `title` and `use_case` say when to use it: they alone are embedded. The procedure is
    free text in `process`, or `steps` in their order, or both.
    """

    title: str
    use_case: str = ""
    process: str = ""
    steps: tuple[PlaybookStep, ...] = ()
    notes: str = ""
    category: str = ""
    tags: tuple[str, ...] = ()
    status: PlaybookStatus = "active"


@dataclass(frozen=True, kw_only=True)
class Lesson:
    """One thing that a run taught. `run_id` is None when a person wrote it."""

    id: int
    text: str
    run_id: str | None
    at: datetime


@dataclass(frozen=True, kw_only=True)
class OutcomeCounts:
    """How often a playbook led where. A partial success counts as a success."""

    successes: int = 0
    partials: int = 0
    failures: int = 0

    @property
    def succeeded(self) -> int:
        """Executions that count as successes."""
        return self.successes + self.partials

    @property
    def total(self) -> int:
        """Executions with a verdict."""
        return self.succeeded + self.failures

    @property
    def confidence(self) -> float:
        """Wilson lower bound of the share of successes, 0 to 1."""
        return wilson_lower_bound(self.succeeded, self.failures)


@dataclass(frozen=True, kw_only=True)
class Playbook(PlaybookContent):
    """A playbook as it is kept. `version` grows with each change of its content."""

    id: str
    key: int
    slug: str
    version: int
    counts: OutcomeCounts
    lessons: tuple[Lesson, ...] = ()
    created_at: datetime
    updated_at: datetime
    last_used_at: datetime | None = None
    source: str = ""
    """Who asked for it: `person`, `run <id>`, `import`."""

    @property
    def confidence(self) -> float:
        """Wilson lower bound of the share of successes, 0 to 1."""
        return self.counts.confidence


@dataclass(frozen=True, kw_only=True)
class PlaybookVersion:
    """A playbook's content as it once was."""

    version: int
    at: datetime
    source: str
    content: PlaybookContent


@dataclass(frozen=True, kw_only=True)
class StepResult:
    """How one step, or one node of a run, ended."""

    name: str
    outcome: Outcome
    output: str = ""
    duration_ms: int = 0


@dataclass(frozen=True, kw_only=True)
class Reflection:
    """What is to be learned of one execution. Improvements become lessons, three at most."""

    what_worked: tuple[str, ...] = ()
    what_failed: tuple[str, ...] = ()
    improvements: tuple[str, ...] = ()
    should_update: bool = True
    told: tuple[str, ...] = ()
    """What of `what_failed` other runs may be told, because a person said it or let it through."""


@dataclass(frozen=True, kw_only=True)
class Execution:
    """One time that a playbook was followed, or a run that followed none.

    An execution is recorded once: the same `id`, or the same run and playbook, counts once.
    """

    id: str = ""
    playbook_id: str | None = None
    playbook_version: int | None = None
    run_id: str | None = None
    agent: str = ""
    task: str = ""
    outcome: Outcome
    started_at: datetime | None = None
    completed_at: datetime | None = None
    expires_at: datetime | None = None
    step_results: tuple[StepResult, ...] = ()
    reflection: Reflection | None = None
    reflection_applied: bool = False


@dataclass(frozen=True, kw_only=True)
class PlaybookFilter:
    """Which playbooks are meant. All of `tags` must be there."""

    category: str | None = None
    tags: tuple[str, ...] = ()
    archived: bool = False
    """Archived ones too."""
    drafts: bool = True
    """Drafts too, which no person stands for."""
    own_source: str = ""
    """Without `drafts`, those of this source all the same."""

    def matches(self, status: PlaybookStatus, source: str) -> bool:
        """Whether a playbook of this status and source is meant."""
        match status:
            case "archived":
                return self.archived
            case "draft":
                return self.drafts or source == self.own_source
            case "active":
                return True


@dataclass(frozen=True, kw_only=True)
class PlaybookQuery:
    """What to look for. All limits apply to both arms alike."""

    text: str
    limit: int = 10
    filter: PlaybookFilter = PlaybookFilter()
    min_score: float = 0.0
    max_distance: float | None = None
    """Cosine distance past which vectors find nothing. None: the embedder's own limit."""
    confidence_weight: float = 0.0


@dataclass(frozen=True, kw_only=True)
class GroupThresholds:
    """How search results are grouped, see `ranking.group`."""

    proven_min: float = 0.5
    """Confidence from which a playbook is proven."""
    failed_max: float = 0.3
    """Confidence, by its latest executions alone, up to which one that fails is called failed."""


class ArmRank(NamedTuple):
    """Where one arm of the search put a playbook: rank from 1, and BM25 score or distance."""

    rank: int
    score: float


@dataclass(frozen=True, kw_only=True)
class SearchResult:
    """One playbook found. `score` is what it was ranked by, 0 to 1."""

    playbook: Playbook
    score: float
    relevance: float
    """Both arms fused, 0 to 1, before confidence is blended in."""
    arm_ranks: Mapping[SearchArm, ArmRank]
    lessons: tuple[str, ...] = ()
    """The playbook's lessons, those that fit the query first."""
    failure_texts: tuple[str, ...] = ()
    """What its latest failed executions say, as far as a person let it; filled where results are
    told apart, as is `tainted`."""
    has_run_text: bool = False
    """Whether anybody but a person wrote any of what is shown of it."""


@dataclass(frozen=True, kw_only=True)
class GroupedResults:
    """Search results by their group."""

    query: str
    proven: tuple[SearchResult, ...] = ()
    mixed: tuple[SearchResult, ...] = ()
    untested: tuple[SearchResult, ...] = ()
    failed: tuple[SearchResult, ...] = ()

    @property
    def groups(self) -> Mapping[ResultGroup, tuple[SearchResult, ...]]:
        """The results of each group, in the order in which groups are shown."""
        return {
            "proven": self.proven,
            "mixed": self.mixed,
            "untested": self.untested,
            "failed": self.failed,
        }

    @property
    def hits(self) -> tuple[SearchResult, ...]:
        """All of them, in the order of the groups."""
        return tuple(chain.from_iterable(self.groups.values()))


@dataclass(frozen=True, kw_only=True)
class Embedder:
    """A way to make vectors, and the name that its vectors are kept under."""

    name: str
    embed: Embed
    max_distance: float = 1.0
    """Cosine distance past which its texts have nothing in common. Each model spreads its vectors
    differently; the default, a right angle, is a loose limit for a model that was not measured."""


@dataclass(frozen=True, kw_only=True)
class StoreStats:
    """Totals over the store."""

    playbooks: int
    archived: int
    executions: int
    pending: int
    average_confidence: float
    by_category: Mapping[str, int]


Vector = Sequence[float]
