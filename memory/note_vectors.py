"""Vectors of notes and examples as the database keeps them: made on save, gone when revoked."""

from collections.abc import Sequence

from sqlalchemy import ColumnElement, Connection, delete, insert, select

from memory.note_tables import entries, entry_vectors
from memory.stored_vectors import Unembedded, to_bytes
from memory.types import Vector


def put(connection: Connection, key: int, model: str, vector: Vector) -> None:
    """Keep an entry's vector, instead of any it had."""
    forget(connection, key)
    row = {"model": model, "dimensions": len(vector), "vector": to_bytes(vector)}
    connection.execute(insert(entry_vectors).values(entry_key=key, **row))


def forget(connection: Connection, key: int) -> None:
    """Drop a vector whose text has changed, or whose entry was revoked."""
    connection.execute(delete(entry_vectors).where(entry_vectors.c.entry_key == key))


def waiting(connection: Connection, model: str, limit: int) -> list[Unembedded]:
    """Entries that are not revoked and have no vector of this model, the oldest first."""
    query = select(entries.c.key, entries.c.text).where(*_without(model))
    rows = connection.execute(query.order_by(entries.c.key).limit(limit))
    return [Unembedded(row.key, row.text) for row in rows]


def texts(connection: Connection, keys: Sequence[int]) -> dict[int, str]:
    """What these entries are found by, as of now; without those that are gone or revoked."""
    query = select(entries.c.key, entries.c.text).where(entries.c.key.in_(keys))
    rows = connection.execute(query.where(entries.c.status != "Revoked"))
    return {row.key: row.text for row in rows}


def _without(model: str) -> tuple[ColumnElement[bool], ...]:
    own = select(entry_vectors.c.entry_key).where(entry_vectors.c.model == model)
    return (entries.c.status != "Revoked", entries.c.key.not_in(own))
