"""Vectors of notes and examples as the database keeps them: made on save, gone when revoked."""

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, delete, insert, select

from memory.notes.tables import entries, entry_vectors
from memory.types import Vector
from memory.vectors.stored_vectors import TextToEmbed, to_bytes


class Made(NamedTuple):
    """By which model vectors are made, and how many numbers they have."""

    model: str
    length: int


def put(connection: Connection, key: int, model: str, vector: Vector) -> None:
    """Keep an entry's vector, instead of any it had."""
    forget(connection, key)
    row = {"model": model, "dimensions": len(vector), "vector": to_bytes(vector)}
    connection.execute(insert(entry_vectors).values(entry_key=key, **row))


def forget(connection: Connection, key: int) -> None:
    """Drop a vector whose text has changed, or whose entry was revoked."""
    connection.execute(delete(entry_vectors).where(entry_vectors.c.entry_key == key))


def waiting(connection: Connection, made: Made, *, after: int = 0, limit: int) -> list[TextToEmbed]:
    """Entries that are not revoked and have no vector made so, in the order of their keys."""
    query = select(entries.c.key, entries.c.text).where(*_without(made), entries.c.key > after)
    rows = connection.execute(query.order_by(entries.c.key).limit(limit))
    return [TextToEmbed(row.key, row.text) for row in rows]


def first_text(connection: Connection) -> str | None:
    """What the oldest entry that is not revoked is found by."""
    query = select(entries.c.text).where(entries.c.status != "Revoked")
    return connection.execute(query.order_by(entries.c.key).limit(1)).scalar()


def text_of(connection: Connection, key: int, model: str) -> str | None:
    """What this model's vector of an entry was made of; None when there is no such vector."""
    query = select(entries.c.text).join(entry_vectors, entry_vectors.c.entry_key == entries.c.key)
    return connection.execute(
        query.where(entries.c.key == key, entry_vectors.c.model == model)
    ).scalar()


def texts(connection: Connection, keys: Sequence[int]) -> dict[int, str]:
    """What these entries are found by, as of now; without those that are gone or revoked."""
    query = select(entries.c.key, entries.c.text).where(entries.c.key.in_(keys))
    rows = connection.execute(query.where(entries.c.status != "Revoked"))
    return {row.key: row.text for row in rows}


def _without(made: Made) -> tuple[ColumnElement[bool], ...]:
    columns = entry_vectors.c
    own = select(columns.entry_key)
    own = own.where(columns.model == made.model, columns.dimensions == made.length)
    return (entries.c.status != "Revoked", entries.c.key.not_in(own))
