"""Lift: the success rate of runs that were shown playbooks, against a random control group."""

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from math import sqrt
from typing import NamedTuple

from sqlalchemy import Connection, Row, select

from memory.entries import IS_PLAYBOOK
from memory.tables import entries, recalled_playbooks, recalls
from memory.types import Interval, wilson

MIN_RUNS_PER_SIDE = 20
"""Runs with an outcome that each side needs before the lift says anything."""

_LATEST_SHARE = (
    select(recalls.c.share)
    .where(recalls.c.share > 0, recalls.c.share < 1)  # 0 and 1 leave nothing to chance
    .order_by(recalls.c.at.desc(), recalls.c.run_id)
    .limit(1)
)
_IS_SUCCESS = {"success": True, "partial": True, "failure": False}


_Row = Row[tuple[object, ...]]


class Trial(NamedTuple):
    """One run for which playbooks were found."""

    shown: bool
    success: bool


@dataclass(frozen=True, kw_only=True)
class TrialGroup:
    """The runs that were shown playbooks, or those that were held out."""

    successes: int = 0
    runs: int = 0

    @property
    def share(self) -> float:
        """Success rate; 0 without runs."""
        return self.successes / self.runs if self.runs else 0.0

    @property
    def interval(self) -> Interval:
        """Wilson's interval of the success rate."""
        return wilson(self.successes, self.runs - self.successes)


@dataclass(frozen=True, kw_only=True)
class Lift:
    """Difference of the success rates with and without playbooks, -1 to 1, at 95 %."""

    shown: TrialGroup
    held_out: TrialGroup

    @property
    def difference(self) -> float:
        """How much higher the success rate is with playbooks."""
        return self.shown.share - self.held_out.share

    @property
    def interval(self) -> Interval:
        """Newcombe's interval of the difference, from both Wilson intervals."""
        a, b = self.shown, self.held_out
        below = sqrt((a.share - a.interval.low) ** 2 + (b.interval.high - b.share) ** 2)
        above = sqrt((a.interval.high - a.share) ** 2 + (b.share - b.interval.low) ** 2)
        return Interval(self.difference - below, self.difference + above)

    @property
    def too_few(self) -> bool:
        """True if a side has too few runs for any conclusion."""
        return min(self.shown.runs, self.held_out.runs) < MIN_RUNS_PER_SIDE

    @property
    def verdict(self) -> str:
        """The conclusion: too few runs, helps, harms, or no difference."""
        if self.too_few:
            fewest = min(self.shown.runs, self.held_out.runs)
            return f"too few runs: {fewest} on the smaller side, {MIN_RUNS_PER_SIDE} are needed"
        if self.interval.low > 0:
            return "helps"
        return "harms" if self.interval.high < 0 else "no difference seen"


@dataclass(frozen=True, kw_only=True)
class PlaybookLift:
    """How often one playbook was found, shown and cited, and its lift."""

    id: str
    title: str
    retrieved: int
    shown: int
    cited: int
    lift: Lift


@dataclass(frozen=True, kw_only=True)
class LiftReport:
    """Lift over all playbooks and for each.

    Compared are only runs that a random draw decided on: those that were shown a playbook, and
    held-out ones that would have been. Only draws with the share of the latest one count: with
    another share, runs of another time would weigh more on one side.
    """

    runs: int
    held_out: int
    share: float | None
    """The share of held-out runs in the draws compared; None before the first draw."""
    overall: Lift
    playbooks: tuple[PlaybookLift, ...]


def lift(trials: Iterable[Trial]) -> Lift:
    """Return the lift over these runs."""
    by_side: dict[bool, list[bool]] = {True: [], False: []}
    for trial in trials:
        by_side[trial.shown].append(trial.success)
    shown, held_out = (
        TrialGroup(successes=sum(by_side[side]), runs=len(by_side[side])) for side in (True, False)
    )
    return Lift(shown=shown, held_out=held_out)


def is_held_out(run_id: str, holdout_share: float) -> bool:
    """Draw whether this run is shown no playbook; the id decides, so a resume draws the same."""
    drawn = int.from_bytes(sha256(f"hold out {run_id}".encode()).digest()[:6]) / 2**48
    return drawn < holdout_share


def lift_report(connection: Connection) -> LiftReport:
    """Return the report over all logged runs, playbooks ordered by title."""
    named = connection.execute(select(entries.c.id, entries.c.text).where(IS_PLAYBOOK))
    titles = {str(id_): str(title) for id_, title in named}
    logged = connection.execute(select(recalls.c.held_out)).scalars().all()
    share = connection.execute(_LATEST_SHARE).scalar()
    found = recalled_playbooks.c
    of_run = (recalls.c.run_id, recalls.c.held_out, recalls.c.share, recalls.c.outcome)
    query = select(*of_run, found.playbook_id, found.shown, found.cited)
    rows = connection.execute(query.join(recalls, recalls.c.run_id == found.run_id)).all()
    by_playbook: dict[str, list[_Row]] = {}
    for row in rows:
        by_playbook.setdefault(row.playbook_id, []).append(row)
    each = [
        PlaybookLift(
            id=id_,
            title=titles.get(id_, "(deleted)"),
            retrieved=len(group),
            shown=sum(row.shown and not row.held_out for row in group),
            cited=sum(row.cited for row in group),
            lift=_lift(group, share),
        )
        for id_, group in by_playbook.items()
    ]
    return LiftReport(
        runs=len(logged),
        held_out=sum(logged),
        share=share,
        overall=_lift(rows, share),
        playbooks=tuple(sorted(each, key=lambda one: (one.title, one.id))),
    )


def _lift(rows: Iterable[_Row], share: float | None) -> Lift:
    """Return the lift over runs of this draw that were shown a playbook, or would have been."""
    drawn = [row for row in rows if share is not None and row.share == share]
    compared = {row.run_id: row for row in drawn if row.shown}
    return lift(
        Trial(shown=not row.held_out, success=_IS_SUCCESS[row.outcome])
        for row in compared.values()
        if row.outcome in _IS_SUCCESS
    )
