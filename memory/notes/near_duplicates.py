"""Notes and examples that say nearly the same as a new one, by their vectors."""

from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, select

from memory.notes.content import kind_of
from memory.notes.store import entries_by_key
from memory.notes.types import Entry, EntryContent
from memory.scope import Scope
from memory.tables import entries, entry_vectors
from memory.types import Vector
from memory.vectors.embeddings import cosine_distances

NEAR_DISTANCE = 0.35
"""Cosine distance below which two entries are near duplicates."""

MAX_NEAR_DUPLICATES = 3


class NearDuplicate(NamedTuple):
    """An entry and its cosine distance from the new one."""

    entry: Entry
    distance: float


def find_near_duplicates(
    connection: Connection, content: EntryContent, vector: Vector, model: str
) -> list[NearDuplicate]:
    """Return the nearest entries that one viewer could be given together with `content`.

    Revoked entries, and those without an embedding of this model, are ignored.
    """
    query = (
        select(entries.c.key, entry_vectors.c.vector)
        .join(entry_vectors)
        .where(
            entry_vectors.c.model == model,
            entry_vectors.c.dimensions == len(vector),
            entries.c.kind == kind_of(content),
            entries.c.status != "Revoked",
            *_visible_together(content.scope),
        )
    )
    rows = connection.execute(query).all()
    distances = cosine_distances([row.vector for row in rows], vector)
    near = [
        (distance, row.key)
        for distance, row in zip(distances, rows, strict=True)
        if distance < NEAR_DISTANCE
    ]
    nearest = sorted(near)[:MAX_NEAR_DUPLICATES]
    found = entries_by_key(connection, [key for _, key in nearest])
    return [NearDuplicate(found[key], distance) for distance, key in nearest]


def _visible_together(scope: Scope) -> list[ColumnElement[bool]]:
    """Return conditions for entries whose scope is equal, wider or narrower."""
    named = {entries.c.agent: scope.agent, entries.c.user_id: scope.user}
    named[entries.c.company] = scope.company
    return [
        column.is_(None) | (column == name) for column, name in named.items() if name is not None
    ]
