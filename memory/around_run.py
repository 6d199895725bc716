"""What a run asks of memory and what it is answered; light, so that every run can know of it."""

from dataclasses import dataclass, field

from memory.types import GroupedResults, GroupThresholds, Outcome, Reflection


@dataclass(frozen=True, kw_only=True)
class RecallOptions:
    """How much memory a run is shown, and what is searched for it."""

    limit: int = 5
    """Playbooks of each group at most."""
    budget_tokens: int = 2_000
    """The prompt block never takes more."""
    max_distance: float | None = None
    """Cosine distance past which a playbook is not meant; 0 is the same, 2 the opposite. None: the
    embedder's own limit."""
    confidence_weight: float = 0.3
    """0 ranks by text alone, 1 by confidence alone."""
    holdout_share: float = 0.1
    """This share of runs is shown no playbook, so that the others can be compared with it."""
    contrast: GroupThresholds = field(default_factory=GroupThresholds)


@dataclass(frozen=True, kw_only=True)
class RecallResult:
    """What memory had for a run. `text` is for the prompt: empty when held out or nothing fits."""

    run_id: str
    text: str
    shown: tuple[str, ...]
    held_out: bool
    results: GroupedResults


@dataclass(frozen=True, kw_only=True)
class RecordedRun:
    """What was kept of a run. The reflection waits for a person."""

    outcome: Outcome
    playbooks: tuple[str, ...] = ()
    reflection: Reflection | None = None
