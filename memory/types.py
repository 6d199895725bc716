"""Types of the playbook memory. This module imports nothing heavy: every run imports it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from itertools import chain
from math import inf, sqrt
from typing import Generic, Literal, NamedTuple, TypeVar

from contracts.chat import Embed
from memory.errors import EntryInvalid

PlaybookStatus = Literal["draft", "active", "archived"]
Outcome = Literal["success", "partial", "failure", "pending", "neutral"]
ResultGroup = Literal["proven", "promising", "untested", "failing"]
SearchArm = Literal["words", "vectors"]
Vector = Sequence[float]
Content_co = TypeVar("Content_co", covariant=True)


def _check_ranges(given: object, **ranges: tuple[float, float]) -> None:
    """Refuse a number out of its range, NaN included."""
    for name, (low, high) in ranges.items():
        value = getattr(given, name)
        if value is not None and not low <= value <= high:
            expected = f"from {low:g} to {high:g}" if high < inf else f"{low:g} or more"
            raise EntryInvalid(f"{name} is {value}; it must be {expected}")


class Interval(NamedTuple):
    """A 95 % confidence interval."""

    low: float
    high: float


def wilson(successes: float, failures: float) -> Interval:
    """Return Wilson's score interval of a success rate; (0, 1) without any outcome."""
    n, z = successes + failures, 1.96
    if n == 0:
        return Interval(0.0, 1.0)
    share = successes / n
    centre = share + z * z / (2 * n)
    spread = z * sqrt((share * (1 - share) + z * z / (4 * n)) / n)
    scale = 1 + z * z / n
    return Interval(max(0.0, (centre - spread) / scale), min(1.0, (centre + spread) / scale))


def wilson_lower_bound(successes: float, failures: float) -> float:
    """Return the lower bound of Wilson's interval; 0 without any outcome."""
    return wilson(successes, failures).low


@dataclass(frozen=True, kw_only=True)
class PlaybookStep:
    """One step of a procedure. `fallback` says what to do when `expected` does not happen.

    `order` counts from 1; 0 means the position in the list. Steps are stored in this order.
    """

    action: str
    order: int = 0
    tool: str = ""
    tool_args: Mapping[str, object] = field(default_factory=dict)
    expected: str = ""
    fallback: str = ""


@dataclass(frozen=True, kw_only=True)
class PlaybookContent:
    """The part of a playbook that people and agents write. Every change of it can be undone.

    The procedure is free text in `process`, a list of `steps`, or both.
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
class PlaybookChanges:
    """Changes of a playbook. None leaves a field as it is; an empty value clears it."""

    title: str | None = None
    use_case: str | None = None
    process: str | None = None
    steps: tuple[PlaybookStep, ...] | None = None
    notes: str | None = None
    category: str | None = None
    tags: tuple[str, ...] | None = None
    status: PlaybookStatus | None = None

    def apply(self, content: PlaybookContent) -> PlaybookContent:
        """Return the content with these changes."""
        changed = {f.name: getattr(self, f.name) for f in fields(self)}
        return replace(content, **{name: v for name, v in changed.items() if v is not None})


@dataclass(frozen=True, kw_only=True)
class Lesson:
    """One lesson of a playbook. `run_id` is None when a person wrote it."""

    id: int
    text: str
    run_id: str | None
    at: datetime


@dataclass(frozen=True, kw_only=True)
class OutcomeCounts:
    """Number of executions by outcome. A partial success counts as a success."""

    successes: int = 0
    partials: int = 0
    failures: int = 0

    @property
    def succeeded(self) -> int:
        """Successes and partial successes."""
        return self.successes + self.partials

    @property
    def total(self) -> int:
        """Executions that succeeded or failed."""
        return self.succeeded + self.failures

    @property
    def confidence(self) -> float:
        """Wilson lower bound of the success rate, 0 to 1."""
        return wilson_lower_bound(self.succeeded, self.failures)


@dataclass(frozen=True, kw_only=True)
class Playbook(PlaybookContent):
    """A stored playbook. `version` grows with each change of its content."""

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
    """Author of the first version: `person`, `run <id>` or `import`."""

    @property
    def confidence(self) -> float:
        """Wilson lower bound of the success rate, 0 to 1."""
        return self.counts.confidence


@dataclass(frozen=True, kw_only=True)
class EntryVersion(Generic[Content_co]):
    """One version of the content of a playbook, a note or an example. `source` is its author."""

    version: int
    at: datetime
    source: str
    content: Content_co


@dataclass(frozen=True, kw_only=True)
class StepResult:
    """Result of one playbook step, or of one node of a run."""

    name: str
    outcome: Outcome
    output: str = ""
    duration_ms: int = 0


@dataclass(frozen=True, kw_only=True)
class Reflection:
    """Conclusions from one execution. Improvements become lessons, three at most."""

    what_worked: tuple[str, ...] = ()
    what_failed: tuple[str, ...] = ()
    improvements: tuple[str, ...] = ()
    should_update: bool = True
    """False: a person refused it, or nothing is to be changed."""
    title: str = ""
    """Title of a new playbook for the improvements. Empty: they are about the execution's playbook,
    or about its task if it has none."""
    told: tuple[str, ...] = ()
    """Texts of `what_failed` that a person wrote or approved: prompts of other runs may hold
    them. The name is part of the stored JSON."""


@dataclass(frozen=True, kw_only=True)
class Execution:
    """One use of a playbook, or a run that used none.

    An execution is counted once: a second one with the same `id`, or of the same run and
    playbook, is ignored.
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
    """Which playbooks to list or search. A playbook must have all of `tags`."""

    category: str | None = None
    tags: tuple[str, ...] = ()
    archived: bool = False
    """Include archived playbooks."""
    drafts: bool = True
    """Include drafts, which no person has reviewed."""
    own_source: str = ""
    """With `drafts=False`, include drafts of this source all the same."""
    taught: bool = False
    """Only playbooks that have lessons, and none that is archived."""


@dataclass(frozen=True, kw_only=True)
class PlaybookQuery:
    """A search for playbooks. The limits apply to both search arms."""

    text: str
    limit: int = 10
    filter: PlaybookFilter = PlaybookFilter()
    min_score: float = 0.0
    max_distance: float | None = None
    """Cosine distance above which vectors do not match. None: the embedder's own limit."""
    confidence_weight: float = 0.0
    optimistic: bool = False
    """Blend in the upper end of the interval whose lower end is the confidence, so that a playbook
    without executions is not ranked last."""
    taught: int = 0
    """Results to add from a search, by meaning, among the playbooks that have lessons. They take
    every second place."""

    def __post_init__(self) -> None:
        _check_ranges(
            self, limit=(0, inf), min_score=(0, 1), max_distance=(0, 2), confidence_weight=(0, 1)
        )


@dataclass(frozen=True, kw_only=True)
class GroupThresholds:
    """Confidence thresholds of the result groups, see `usefulness.result_group`."""

    proven_min: float = 0.5
    """Lowest confidence of a proven playbook."""
    failed_max: float = 0.3
    """Highest confidence, of the latest executions by their weight, of a failing playbook."""

    def __post_init__(self) -> None:
        _check_ranges(self, proven_min=(0, 1), failed_max=(0, 1))


class ArmRank(NamedTuple):
    """Rank of a playbook in one search arm, from 1, and its BM25 score or cosine distance."""

    rank: int
    score: float


class Observation(NamedTuple):
    """A text about executions. `run_id` names the run that it was concluded from, if any."""

    text: str
    run_id: str | None


@dataclass(frozen=True, kw_only=True)
class SearchResult:
    """One playbook found. Results are ranked by `score`, 0 to 1."""

    playbook: Playbook
    score: float
    relevance: float
    """Fused score of both arms, 0 to 1, before confidence is blended in."""
    arm_ranks: Mapping[SearchArm, ArmRank]
    lessons: tuple[Lesson, ...] = ()
    """Lessons of the playbook, the most similar to the query first."""
    failure_texts: tuple[Observation, ...] = ()
    """Why the latest executions failed, as far as a person approved the texts. Set, like
    `has_run_text`, only in grouped results."""
    has_run_text: bool = False
    """True if a run or an import wrote any of the text that is shown."""


@dataclass(frozen=True, kw_only=True)
class GroupedResults:
    """Search results by group."""

    query: str
    proven: tuple[SearchResult, ...] = ()
    promising: tuple[SearchResult, ...] = ()
    untested: tuple[SearchResult, ...] = ()
    failing: tuple[SearchResult, ...] = ()

    @property
    def groups(self) -> Mapping[ResultGroup, tuple[SearchResult, ...]]:
        """The results of each group, in display order."""
        return {
            "proven": self.proven,
            "promising": self.promising,
            "untested": self.untested,
            "failing": self.failing,
        }

    @property
    def hits(self) -> tuple[SearchResult, ...]:
        """All results, in display order."""
        return tuple(chain.from_iterable(self.groups.values()))


@dataclass(frozen=True, kw_only=True)
class Embedder:
    """An embedding function and the model name that its vectors are stored under."""

    name: str
    embed: Embed
    max_distance: float | None = 1.0
    """Cosine distance above which two texts have nothing in common. It differs between models.
    None: measured when the model is first used with a store."""


@dataclass(frozen=True, kw_only=True)
class Retention:
    """When a playbook is archived as stale. 0 days makes every playbook old."""

    max_age_days: float = 90.0
    min_confidence: float = 0.3

    def __post_init__(self) -> None:
        _check_ranges(self, max_age_days=(0, inf), min_confidence=(0, 1))


@dataclass(frozen=True, kw_only=True)
class RecallOptions:
    """How a run searches playbooks and how much of them its prompt holds."""

    limit: int = 5
    """Largest number of playbooks in each group."""
    budget_tokens: int = 2_000
    """Largest size of the prompt block."""
    max_distance: float | None = None
    """Cosine distance above which vectors do not match: 0 is identical, 2 is opposite. None: the
    embedder's own limit."""
    confidence_weight: float = 0.3
    """0 ranks by text alone, 1 by confidence alone."""
    holdout_share: float = 0.1
    """Share of runs that are shown no playbook, as a control group."""
    contrast: GroupThresholds = field(default_factory=GroupThresholds)

    def __post_init__(self) -> None:
        _check_ranges(
            self,
            limit=(0, inf),
            budget_tokens=(0, inf),
            max_distance=(0, 2),
            confidence_weight=(0, 1),
            holdout_share=(0, 1),
        )


@dataclass(frozen=True, kw_only=True)
class RecallResult:
    """Playbooks found for a run. `text` is for its prompt; empty if held out or nothing fits."""

    run_id: str
    text: str
    shown: tuple[str, ...]
    held_out: bool
    results: GroupedResults


@dataclass(frozen=True, kw_only=True)
class RecordedRun:
    """How a run was recorded. The reflection waits for a person's approval."""

    outcome: Outcome
    playbooks: tuple[str, ...] = ()
    reflection: Reflection | None = None
