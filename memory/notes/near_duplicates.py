"""What stands near a new note or example, and what seems to deny it."""

import re
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, select

from memory import scope
from memory.notes import store
from memory.notes.content import kind_of, searchable_text
from memory.notes.tables import entries, entry_vectors
from memory.notes.types import Entry, EntryContent, ReviewFlag
from memory.types import Vector

NEAR_DISTANCE = 0.35
"""Cosine distance below which two notes are shown side by side."""

MAX_NEAR_DUPLICATES = 3
"""Near ones that are named at most."""

_DENIAL = re.compile(
    r"\b(no|not|never|none|without|cannot|can't|don't|doesn't|isn't|aren't|won't)\b"
)
_WORD = re.compile(r"\w+")


class NearDuplicate(NamedTuple):
    """Another entry, and its cosine distance."""

    entry: Entry
    distance: float


def find_near_duplicates(
    connection: Connection, content: EntryContent, vector: Vector, model: str
) -> list[NearDuplicate]:
    """The nearest entries that somebody could be given together with this one, not revoked.

    Those are the ones of its own scope, of a wider one, and of a narrower one. An entry whose
    vector waits to be made cannot be compared.
    """
    import numpy as np

    unit = np.asarray(vector, dtype=np.float32)
    unit = unit / (np.linalg.norm(unit) or 1.0)
    query = (
        select(entries.c.key, entry_vectors.c.vector)
        .join(
            entry_vectors,
            (entry_vectors.c.entry_key == entries.c.key)
            & (entry_vectors.c.model == model)
            & (entry_vectors.c.dimensions == len(unit)),
        )
        .where(entries.c.kind == kind_of(content), entries.c.status != "Revoked")
        .where(*_together(content.scope))
    )
    rows = connection.execute(query).all()
    vectors = np.frombuffer(b"".join(row.vector for row in rows), dtype="<f4")
    vectors = vectors.reshape(len(rows), len(unit))
    lengths = np.linalg.norm(vectors, axis=1)
    away = 1.0 - (vectors @ unit) / np.where(lengths > 0, lengths, 1.0)
    near = [(float(away[row]), rows[int(row)].key) for row in np.flatnonzero(away < NEAR_DISTANCE)]
    best = sorted(near)[:MAX_NEAR_DUPLICATES]
    found = store.entries_by_key(connection, [key for _, key in best])
    return [NearDuplicate(found[key], distance) for distance, key in best if key in found]


def review_flag(content: EntryContent, other: NearDuplicate) -> ReviewFlag:
    """What a person should look at before they approve: the other one, and why."""
    if contradicts(searchable_text(content), searchable_text(other.entry)):
        return ReviewFlag("contradicts", other.entry.id, "they differ in a denial or a number")
    return ReviewFlag(
        "near", other.entry.id, f"says nearly the same (distance {other.distance:.2f})"
    )


def contradicts(one: str, other: str) -> bool:
    """Whether two texts of about the same words differ in a denial or in a number (pure)."""
    first, second = one.lower(), other.lower()
    if bool(_DENIAL.search(first)) != bool(_DENIAL.search(second)):
        return True
    numbers = [{word for word in _WORD.findall(text) if word.isdigit()} for text in (first, second)]
    return all(numbers) and numbers[0] != numbers[1]


def _together(whose: scope.Scope) -> list[ColumnElement[bool]]:
    """Entries that one and the same viewer could see together with one of this scope."""
    columns = {"agent": entries.c.agent, "user": entries.c.user_id, "company": entries.c.company}
    named = {name: getattr(whose, name) for name in columns}
    return [
        column.is_(None) | (column == named[name])
        for name, column in columns.items()
        if named[name] is not None
    ]
