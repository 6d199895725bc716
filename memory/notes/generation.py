"""The number that caches of the notebook go by; every write grows it."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine, select, update

from memory.database import write_transaction
from memory.notes.tables import generation


@contextmanager
def notebook_transaction(engine: Engine) -> Iterator[Connection]:
    """One transaction that writes to the notebook, after whoever does so already.

    It grows the generation first, which is one row: so writers take turns on every database, and
    every cache of every process is stale once this commits.
    """
    with write_transaction(engine) as connection:
        connection.execute(update(generation).values(number=generation.c.number + 1))
        yield connection


def current_generation(connection: Connection) -> int:
    """The number that caches go by."""
    return int(connection.execute(select(generation.c.number)).scalar_one())
