"""Does it help? The share of successes with memory against without, and how sure that is (pure)."""

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from math import sqrt
from typing import NamedTuple

from memory.confidence import Interval, wilson

MIN_RUNS_PER_SIDE = 20
"""Runs with a verdict that each side needs before its lift means anything."""


class Trial(NamedTuple):
    """One run that memory had something for: whether it was shown, and whether it succeeded."""

    shown: bool
    success: bool


@dataclass(frozen=True, kw_only=True)
class TrialGroup:
    """The runs of one kind."""

    successes: int = 0
    runs: int = 0

    @property
    def share(self) -> float:
        """Share of successes; 0 without runs."""
        return self.successes / self.runs if self.runs else 0.0

    @property
    def interval(self) -> Interval:
        """Wilson's interval of the share."""
        return wilson(self.successes, self.runs - self.successes)


@dataclass(frozen=True, kw_only=True)
class Lift:
    """Success with memory less success without, -1 to 1, at 95 %."""

    shown: TrialGroup
    held_out: TrialGroup

    @property
    def difference(self) -> float:
        """How much likelier a run succeeds with memory."""
        return self.shown.share - self.held_out.share

    @property
    def interval(self) -> Interval:
        """Newcombe's interval of the difference, made from both Wilson intervals."""
        a, b = self.shown, self.held_out
        below = sqrt((a.share - a.interval.low) ** 2 + (b.interval.high - b.share) ** 2)
        above = sqrt((a.interval.high - a.share) ** 2 + (b.share - b.interval.low) ** 2)
        return Interval(self.difference - below, self.difference + above)

    @property
    def verdict(self) -> str:
        """What may be said of it: too thin, helps, harms, or no difference seen."""
        fewest = min(self.shown.runs, self.held_out.runs)
        if fewest < MIN_RUNS_PER_SIDE:
            return f"too thin: {fewest} runs on the smaller side, {MIN_RUNS_PER_SIDE} are needed"
        if self.interval.low > 0:
            return "helps"
        return "harms" if self.interval.high < 0 else "no difference seen"


def lift(trials: Iterable[Trial]) -> Lift:
    """The lift of these runs."""
    known = list(trials)
    return Lift(
        shown=_side([trial.success for trial in known if trial.shown]),
        held_out=_side([trial.success for trial in known if not trial.shown]),
    )


def is_held_out(run_id: str, holdout_share: float) -> bool:
    """Whether this run gets no memory: a lot drawn by its id, so that a resumed run draws alike."""
    drawn = int.from_bytes(sha256(f"hold out {run_id}".encode()).digest()[:6]) / 2**48
    return drawn < holdout_share


def _side(successes: list[bool]) -> TrialGroup:
    return TrialGroup(successes=sum(successes), runs=len(successes))
