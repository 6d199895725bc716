"""What people think of runs, from 0 to 100."""

from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection, delete, insert, select

from memory.notes.tables import ratings


class RunRating(NamedTuple):
    """One person's word on one run."""

    run_id: str
    score: int
    by: str
    at: datetime


def put(connection: Connection, given: RunRating) -> None:
    """Keep a rating, instead of any the run had."""
    connection.execute(delete(ratings).where(ratings.c.run_id == given.run_id))
    row = {"run_id": given.run_id, "score": given.score, "author_name": given.by, "at": given.at}
    connection.execute(insert(ratings).values(**row))


def get(connection: Connection, run_id: str) -> RunRating | None:
    """The run's rating, or None."""
    row = connection.execute(select(ratings).where(ratings.c.run_id == run_id)).first()
    return None if row is None else RunRating(row.run_id, row.score, row.author_name, row.at)


def since(connection: Connection, at: datetime) -> list[str]:
    """The runs that were rated then or later."""
    return list(connection.scalars(select(ratings.c.run_id).where(ratings.c.at >= at)))
