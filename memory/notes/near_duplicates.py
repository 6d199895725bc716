"""Entries that nearly repeat, or seem to contradict, a new note or example."""

import re
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, select

from memory.notes.content import kind_of, searchable_text
from memory.notes.note_vectors import cosine_distances
from memory.notes.store import entries_by_key
from memory.notes.tables import entries, entry_vectors
from memory.notes.types import Entry, EntryContent, ReviewFlag
from memory.scope import Scope
from memory.types import Vector

NEAR_DISTANCE = 0.35
"""Cosine distance below which two entries are near duplicates."""

MAX_NEAR_DUPLICATES = 3

_NEGATION = re.compile(
    r"\b(no|not|never|none|without|cannot|can't|don't|doesn't|isn't|aren't|won't)\b"
)
_WORD = re.compile(r"\w+")


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


def review_flag(content: EntryContent, other: NearDuplicate) -> ReviewFlag:
    """Return the flag that tells a reviewer how `content` and the near duplicate relate."""
    if contradicts(searchable_text(content), searchable_text(other.entry)):
        return ReviewFlag("contradicts", other.entry.id, "they differ in a negation or a number")
    why = f"says nearly the same (distance {other.distance:.2f})"
    return ReviewFlag("near", other.entry.id, why)


def contradicts(one: str, other: str) -> bool:
    """Return whether two similar texts differ in a negation or in a number."""
    first, second = one.lower(), other.lower()
    if bool(_NEGATION.search(first)) != bool(_NEGATION.search(second)):
        return True
    numbers = [{word for word in _WORD.findall(text) if word.isdigit()} for text in (first, second)]
    return all(numbers) and numbers[0] != numbers[1]


def _visible_together(scope: Scope) -> list[ColumnElement[bool]]:
    """Return conditions for entries whose scope is equal, wider or narrower."""
    named = {entries.c.agent: scope.agent, entries.c.user_id: scope.user}
    named[entries.c.company] = scope.company
    return [
        column.is_(None) | (column == name) for column, name in named.items() if name is not None
    ]
