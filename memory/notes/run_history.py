"""Notes and examples that each run was given, and people's ratings of runs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Engine, delete, func, insert, select

from memory.database import read_transaction, write_transaction
from memory.notes.content import check_score
from memory.notes.injection import Injection
from memory.notes.store import notebook_transaction
from memory.notes.types import EntryKind
from memory.tables import entries, ratings, shown_entries


class InjectedEntry(NamedTuple):
    """A note or an example that a node of a run was given."""

    run_id: str
    node: str
    entry_id: str
    entry_version: int
    kind: EntryKind | None
    """None if the entry has been removed since."""
    at: datetime


class RunRating(NamedTuple):
    """A person's rating of a run, from 0 to 100."""

    run_id: str
    score: int
    by: str
    at: datetime


@dataclass(frozen=True)
class RunHistory:
    """Injections and ratings of one notebook's runs."""

    engine: Engine
    clock: Callable[[], datetime]

    def log_injection(self, run_id: str, node: str, injection: Injection) -> None:
        """Record what a node was given. If it runs again, only new entries are added."""
        columns, at = shown_entries.c, self.clock()
        of_node = select(columns.entry_id).where(columns.run_id == run_id, columns.node == node)
        with write_transaction(self.engine) as connection:
            logged = set(connection.execute(of_node).scalars())
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
                if entry.id not in logged
            ]
            if rows:
                connection.execute(insert(shown_entries), rows)

    def injected_into(self, run_id: str) -> Sequence[InjectedEntry]:
        """Return what a run was given, in the order of its nodes and of their prompts."""
        columns = shown_entries.c
        joined = shown_entries.outerjoin(entries, entries.c.id == columns.entry_id)
        of_entry = (columns.entry_id, columns.entry_version, entries.c.kind)
        query = select(columns.run_id, columns.node, *of_entry, columns.at).select_from(joined)
        query = query.where(columns.run_id == run_id)
        query = query.order_by(columns.at, columns.node, columns.rank)
        with read_transaction(self.engine) as connection:
            return [InjectedEntry(*row) for row in connection.execute(query)]

    def count_runs_with(self, entry_id: str) -> int:
        """Return how many runs were given this note or example."""
        runs = func.count(shown_entries.c.run_id.distinct())
        query = select(runs).where(shown_entries.c.entry_id == entry_id)
        with read_transaction(self.engine) as connection:
            return int(connection.execute(query).scalar_one())

    def rate(self, run_id: str, score: int, *, by: str = "") -> RunRating:
        """Store a person's rating of a run, replacing an earlier one.

        Raises:
            EntryInvalid: the score is not from 0 to 100.
        """
        made = RunRating(run_id, check_score(score), by, self.clock())
        row = {"run_id": run_id, "score": made.score, "author_name": by, "at": made.at}
        with notebook_transaction(self.engine) as connection:
            connection.execute(delete(ratings).where(ratings.c.run_id == run_id))
            connection.execute(insert(ratings).values(**row))
        return made

    def rating(self, run_id: str) -> RunRating | None:
        """Return a run's rating, or None."""
        with read_transaction(self.engine) as connection:
            row = connection.execute(select(ratings).where(ratings.c.run_id == run_id)).first()
        return None if row is None else RunRating(row.run_id, row.score, row.author_name, row.at)

    def runs_rated_since(self, at: datetime) -> Sequence[str]:
        """Return the ids of runs that were rated at this moment or later."""
        with read_transaction(self.engine) as connection:
            return list(connection.scalars(select(ratings.c.run_id).where(ratings.c.at >= at)))
