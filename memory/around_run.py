"""What a run asks of memory and what it is answered; light, so that every run can know of it."""

from dataclasses import dataclass, field

from memory.types import Contrast, Contrasted, Outcome, Reflection


@dataclass(frozen=True, kw_only=True)
class Surfacing:
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
    contrast: Contrast = field(default_factory=Contrast)


@dataclass(frozen=True, kw_only=True)
class Recall:
    """What memory had for a run. `text` is for the prompt: empty when held out or nothing fits."""

    run_id: str
    text: str
    shown: tuple[str, ...]
    held_out: bool
    found: Contrasted


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """What was kept of a run. The reflection waits for a person."""

    outcome: Outcome
    playbooks: tuple[str, ...] = ()
    reflection: Reflection | None = None
