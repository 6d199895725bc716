"""The number that caches of the notebook go by; every write grows it."""

from sqlalchemy import Connection, select, update

from memory.note_tables import generation


def changed(connection: Connection) -> None:
    """Grow the generation: every cache of every process is stale once this commits."""
    connection.execute(update(generation).values(number=generation.c.number + 1))


def current_generation(connection: Connection) -> int:
    """The number that caches go by."""
    return int(connection.execute(select(generation.c.number)).scalar_one())
