"""Which notes and examples each run was given, node by node."""

from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection, func, insert, select

from memory.notes.injection import Injection
from memory.notes.tables import entries, shown_entries
from memory.notes.types import EntryKind


class InjectedEntry(NamedTuple):
    """One note or example that a run was given; it may have changed, or be gone, since."""

    run_id: str
    node: str
    entry_id: str
    entry_version: int
    kind: EntryKind | None
    """None: it is gone."""
    at: datetime


def log(connection: Connection, run_id: str, node: str, injection: Injection, at: datetime) -> None:
    """Note what a node was given; of a node that runs again, what is new to it."""
    mine = (shown_entries.c.run_id == run_id, shown_entries.c.node == node)
    known = set(connection.execute(select(shown_entries.c.entry_id).where(*mine)).scalars())
    rows = [
        {
            "run_id": run_id,
            "node": node,
            "entry_id": entry.id,
            "entry_version": entry.version,
            "rank": rank,
            "at": at,
        }
        for rank, entry in enumerate(injection.entries, 1)
        if entry.id not in known
    ]
    if rows:
        connection.execute(insert(shown_entries), rows)


def of_run(connection: Connection, run_id: str) -> list[InjectedEntry]:
    """What a run was given, in the order of its nodes and of their prompts."""
    joined = shown_entries.outerjoin(entries, entries.c.id == shown_entries.c.entry_id)
    query = select(shown_entries, entries.c.kind).select_from(joined)
    query = query.where(shown_entries.c.run_id == run_id)
    order = (shown_entries.c.at, shown_entries.c.node, shown_entries.c.rank)
    return [
        InjectedEntry(row.run_id, row.node, row.entry_id, row.entry_version, row.kind, row.at)
        for row in connection.execute(query.order_by(*order))
    ]


def runs_given(connection: Connection, entry_id: str) -> int:
    """How many runs were given this note or example."""
    runs = func.count(shown_entries.c.run_id.distinct())
    query = select(runs).where(shown_entries.c.entry_id == entry_id)
    return int(connection.execute(query).scalar_one())
