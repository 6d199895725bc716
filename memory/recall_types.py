"""What a run exchanges with playbook memory. Imports nothing heavy, since every run imports it."""

from dataclasses import dataclass, field

from memory.types import GroupedResults, GroupThresholds, Outcome, Reflection


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
