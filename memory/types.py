"""What memory holds: playbooks, their lessons, and how it went when they were followed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from typing import Literal, NamedTuple

from contracts.chat import Embed
from memory.confidence import wilson_lower_bound

Status = Literal["draft", "active", "archived"]
Outcome = Literal["success", "partial", "failure", "pending", "neutral"]
Group = Literal["proven", "mixed", "untested", "failed"]
Arm = Literal["words", "vectors"]


@dataclass(frozen=True, kw_only=True)
class Step:
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
class Content:
    """What a person or an agent writes of a playbook; all of it can be changed and undone.

    `title` and `use_case` say when to use it: they alone are embedded. The procedure is
    free text in `process`, or `steps` in their order, or both.
    """

    title: str
    use_case: str = ""
    process: str = ""
    steps: tuple[Step, ...] = ()
    notes: str = ""
    category: str = ""
    tags: tuple[str, ...] = ()
    status: Status = "active"


@dataclass(frozen=True, kw_only=True)
class Lesson:
    """One thing that a run taught. `run_id` is None when a person wrote it."""

    id: int
    text: str
    run_id: str | None
    at: datetime


@dataclass(frozen=True, kw_only=True)
class Counts:
    """How often a playbook led where. A partial success counts as a success."""

    successes: int = 0
    partials: int = 0
    failures: int = 0

    @property
    def good(self) -> int:
        """Executions that count as successes."""
        return self.successes + self.partials

    @property
    def total(self) -> int:
        """Executions with a verdict."""
        return self.good + self.failures

    @property
    def confidence(self) -> float:
        """Wilson lower bound of the share of successes, 0 to 1."""
        return wilson_lower_bound(self.good, self.failures)


@dataclass(frozen=True, kw_only=True)
class Playbook(Content):
    """A playbook as it is kept. `version` grows with each change of its content."""

    id: str
    key: int
    slug: str
    version: int
    counts: Counts
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
class Version:
    """A playbook's content as it once was."""

    version: int
    at: datetime
    source: str
    content: Content


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
class Filter:
    """Which playbooks are meant. All of `tags` must be there."""

    category: str | None = None
    tags: tuple[str, ...] = ()
    archived: bool = False
    """Archived ones too."""
    drafts: bool = True
    """Drafts too, which no person stands for."""
    own: str = ""
    """Without `drafts`, those of this source all the same."""

    def takes(self, status: Status, source: str) -> bool:
        """Whether a playbook of this status and source is meant."""
        match status:
            case "archived":
                return self.archived
            case "draft":
                return self.drafts or source == self.own
            case "active":
                return True


@dataclass(frozen=True, kw_only=True)
class Query:
    """What to look for. All limits apply to both arms alike."""

    text: str
    limit: int = 10
    filter: Filter = Filter()
    min_score: float = 0.0
    max_distance: float | None = None
    """Cosine distance past which vectors find nothing. None: the embedder's own limit."""
    confidence_weight: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Contrast:
    """How search results are grouped, see `ranking.group`."""

    proven_min: float = 0.5
    """Confidence from which a playbook is proven."""
    failed_max: float = 0.3
    """Confidence, by its latest executions alone, up to which one that fails is called failed."""


class Place(NamedTuple):
    """Where one arm of the search put a playbook: rank from 1, and BM25 score or distance."""

    rank: int
    score: float


@dataclass(frozen=True, kw_only=True)
class Hit:
    """One playbook found. `score` is what it was ranked by, 0 to 1."""

    playbook: Playbook
    score: float
    relevance: float
    """Both arms fused, 0 to 1, before confidence is blended in."""
    places: Mapping[Arm, Place]
    lessons: tuple[str, ...] = ()
    """The playbook's lessons, those that fit the query first."""
    what_failed: tuple[str, ...] = ()
    """What its latest failed executions say, as far as a person let it; filled where results are
    told apart, as is `tainted`."""
    tainted: bool = False
    """Whether anybody but a person wrote any of what is shown of it."""


@dataclass(frozen=True, kw_only=True)
class Contrasted:
    """Search results by their group."""

    query: str
    proven: tuple[Hit, ...] = ()
    mixed: tuple[Hit, ...] = ()
    untested: tuple[Hit, ...] = ()
    failed: tuple[Hit, ...] = ()

    @property
    def groups(self) -> Mapping[Group, tuple[Hit, ...]]:
        """The results of each group, in the order in which groups are shown."""
        return {
            "proven": self.proven,
            "mixed": self.mixed,
            "untested": self.untested,
            "failed": self.failed,
        }

    @property
    def hits(self) -> tuple[Hit, ...]:
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
class Stats:
    """Totals over the store."""

    playbooks: int
    archived: int
    executions: int
    pending: int
    average_confidence: float
    by_category: Mapping[str, int]


Vector = Sequence[float]
