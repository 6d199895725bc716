"""Lift overall and per playbook, from the log of what runs were shown and how they ended."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import Connection, select

from memory.playbooks.lift import Lift, Trial, lift
from memory.tables import playbooks, recalled_playbooks, recalls

_SHARE = (
    select(recalls.c.share)
    .where(recalls.c.share > 0, recalls.c.share < 1)  # by 0 and 1 nothing is left to a lot
    .order_by(recalls.c.at.desc(), recalls.c.run_id)
    .limit(1)
)
_VERDICTS = {"success": True, "partial": True, "failure": False}


@dataclass(frozen=True, kw_only=True)
class PlaybookLift:
    """One playbook: how often found, shown and cited, and what that was worth."""

    id: str
    title: str
    retrieved: int
    shown: int
    cited: int
    lift: Lift


@dataclass(frozen=True, kw_only=True)
class LiftReport:
    """Whether memory helps.

    Compared are runs that a lot decided on, and no others: those that were shown a playbook, or it,
    and those held out that would have been. Of the lots only those count that were drawn by the
    share of the newest one: by another share runs of another time weigh more on one side.
    """

    runs: int
    held_out: int
    share: float | None
    """The share that the compared runs were drawn by; None before the first lot."""
    overall: Lift
    playbooks: tuple[PlaybookLift, ...]


def lift_report(connection: Connection) -> LiftReport:
    """The report over everything that is logged; playbooks in the order of their titles."""
    rows = _rows(connection)
    titles = {
        str(i): str(t) for i, t in connection.execute(select(playbooks.c.id, playbooks.c.title))
    }
    logged = connection.execute(select(recalls.c.held_out)).scalars().all()
    share = connection.execute(_SHARE).scalar()
    by_playbook: dict[str, list[_Row]] = {}
    for row in rows:
        by_playbook.setdefault(row.playbook_id, []).append(row)
    each = [
        _playbook(i, titles.get(i, "(deleted)"), group, share) for i, group in by_playbook.items()
    ]
    return LiftReport(
        runs=len(logged),
        held_out=sum(logged),
        share=share,
        overall=_lift(rows, share),
        playbooks=tuple(sorted(each, key=lambda one: (one.title, one.id))),
    )


class _Row(NamedTuple):
    run_id: str
    held_out: bool
    share: float | None
    outcome: str | None
    playbook_id: str
    shown: bool
    cited: bool


def _rows(connection: Connection) -> list[_Row]:
    log, found = recalls.c, recalled_playbooks.c
    seen = (found.playbook_id, found.shown, found.cited)
    query = select(log.run_id, log.held_out, log.share, log.outcome, *seen)
    query = query.join(recalled_playbooks, found.run_id == log.run_id)
    return [_Row(*row) for row in connection.execute(query)]


def _playbook(id_: str, title: str, rows: list[_Row], share: float | None) -> PlaybookLift:
    return PlaybookLift(
        id=id_,
        title=title,
        retrieved=len(rows),
        shown=sum(row.shown and not row.held_out for row in rows),
        cited=sum(row.cited for row in rows),
        lift=_lift(rows, share),
    )


def _lift(rows: Iterable[_Row], share: float | None) -> Lift:
    """Over what was shown, or would have been, to runs drawn by this share."""
    drawn = [row for row in rows if share is not None and row.share == share]
    compared = {row.run_id: row for row in drawn if row.shown}
    return lift(
        Trial(shown=not row.held_out, success=_VERDICTS[row.outcome])
        for row in compared.values()
        if row.outcome in _VERDICTS
    )
