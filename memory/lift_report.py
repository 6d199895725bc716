"""Lift overall and per playbook, from the log of what runs were shown and how they ended."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import Connection, select

from memory.lift import Lift, Trial, lift
from memory.tables import playbooks, recalled, recalls

_VERDICTS = {"success": True, "partial": True, "failure": False}


@dataclass(frozen=True, kw_only=True)
class PlaybookLift:
    """One playbook: how often found, shown and cited, and what that was worth.

    Compared are the runs that were shown it and those held out that would have been.
    """

    id: str
    title: str
    retrieved: int
    shown: int
    cited: int
    lift: Lift


@dataclass(frozen=True, kw_only=True)
class LiftReport:
    """Whether memory helps. Only runs that memory had something for, and that ended, count."""

    runs: int
    held_out: int
    overall: Lift
    playbooks: tuple[PlaybookLift, ...]


def lift_report(connection: Connection) -> LiftReport:
    """The report over everything that is logged; playbooks in the order of their titles."""
    rows = _rows(connection)
    titles = {
        str(i): str(t) for i, t in connection.execute(select(playbooks.c.id, playbooks.c.title))
    }
    logged = connection.execute(select(recalls.c.held_out)).scalars().all()
    runs = {row.run_id: row for row in rows if row.shown or row.held_out}
    by_playbook: dict[str, list[_Row]] = {}
    for row in rows:
        by_playbook.setdefault(row.playbook_id, []).append(row)
    each = [_playbook(i, titles.get(i, "(deleted)"), group) for i, group in by_playbook.items()]
    return LiftReport(
        runs=len(logged),
        held_out=sum(logged),
        overall=_lift(runs),
        playbooks=tuple(sorted(each, key=lambda one: (one.title, one.id))),
    )


class _Row(NamedTuple):
    run_id: str
    held_out: bool
    outcome: str | None
    playbook_id: str
    shown: bool
    cited: bool


def _rows(connection: Connection) -> list[_Row]:
    log, found = recalls.c, recalled.c
    query = select(
        log.run_id, log.held_out, log.outcome, found.playbook_id, found.shown, found.cited
    ).join(recalled, found.run_id == log.run_id)
    return [_Row(*row) for row in connection.execute(query)]


def _playbook(id_: str, title: str, rows: list[_Row]) -> PlaybookLift:
    compared = {row.run_id: row for row in rows if row.shown}
    return PlaybookLift(
        id=id_,
        title=title,
        retrieved=len(rows),
        shown=sum(row.shown and not row.held_out for row in rows),
        cited=sum(row.cited for row in rows),
        lift=_lift(compared),
    )


def _lift(runs: Mapping[str, _Row]) -> Lift:
    return lift(
        Trial(shown=not row.held_out, success=_VERDICTS[row.outcome])
        for row in runs.values()
        if row.outcome in _VERDICTS
    )
