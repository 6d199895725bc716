"""Search by meaning among what a viewer may see, and only there: exact, in memory.

A shelf holds the vectors of one scope, read from the database by that scope's key, and is
forgotten with the first write by anyone. A viewer's search looks at the shelves of their own
scopes, so another user's note is never even compared. An exact scan of 10,000 vectors takes two
milliseconds, finds everything, and has no index of its own that could be stale or damaged.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import ColumnElement, Connection, Select, func, select

from memory import scope
from memory.note_cache import Remembered
from memory.note_ranking import Candidate, choose, reach
from memory.note_tables import entries, entry_vectors, note_types
from memory.note_types import STANDING, Kind
from memory.scope import Scope
from memory.types import Vector

if TYPE_CHECKING:
    import numpy as np

    Floats = np.ndarray[tuple[int, ...], np.dtype[np.float32]]
    Numbers = np.ndarray[tuple[int, ...], np.dtype[np.int64]]
    Flags = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]
    Moments = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


SPARE = 2
"""This many times more is found than is asked for, for what does not fit a budget."""


class Where(NamedTuple):
    """Which shelf is meant: the entries of one kind and one scope, by one model."""

    kind: Kind
    scope: str
    model: str


@dataclass(frozen=True, kw_only=True)
class Shelf:
    """Active entries of one scope, row by row, with vectors of length one.

    `standing` are those that hold whatever the task is: constraints and preferences. `waiting`
    is the number of entries that have no vector of the model yet.
    """

    keys: "Numbers"
    priorities: "Numbers"
    standing: "Flags"
    expires: "Moments"
    vectors: "Floats"
    waiting: int


Shelves = Remembered[Where, Shelf]


class Query(NamedTuple):
    """What is meant, who asks, and when: what is provisional holds until then only."""

    kind: Kind
    viewer: Scope
    model: str
    vector: Vector
    at: datetime


class Near(NamedTuple):
    """Keys and distances, best first, and how many entries could not be compared."""

    distances: dict[int, float]
    waiting: int


class _Measured(NamedTuple):
    """A shelf and how far each of its rows is from the query."""

    level: int
    shelf: Shelf
    away: "Floats"


def nearest(
    connection: Connection, shelves: Shelves, generation: int, query: Query, limit: int
) -> Near:
    """What the viewer may see and the query means, best first.

    Behind the `limit` best come up to `SPARE` times as many more.
    """
    most = limit * (1 + SPARE)
    measured = list(_measured(connection, shelves, generation, query))
    waiting = sum(one.shelf.waiting for one in measured)
    measured = [one for one in measured if len(one.away)]
    far = _reach(measured, limit)
    found = choose(
        [c for one in measured for c in _best(one, one.away <= far, most)],
        [c for one in measured for c in _best(one, one.shelf.standing & (one.away <= 2), most)],
        limit,
    )
    return Near({one.key: one.distance for one in found[:most]}, waiting)


def _reach(measured: Sequence[_Measured], limit: int) -> float:
    import numpy as np

    if not measured:
        return 0.0
    away = np.concatenate([one.away for one in measured])
    first = np.partition(away, limit - 1)[:limit] if limit < len(away) else away
    return reach(float(first.min()), float(first.max()))


def _measured(
    connection: Connection, shelves: Shelves, generation: int, query: Query
) -> Iterator[_Measured]:
    import numpy as np

    unit = np.asarray(query.vector, dtype=np.float32)
    unit = unit / (np.linalg.norm(unit) or 1.0)
    for one in scope.visible(query.viewer):
        where = Where(query.kind, scope.key(one), query.model)
        shelf = shelves.get(generation, where)
        if shelf is None:
            shelf = shelves.put(generation, where, _read(connection, where, len(unit)))
        lasts = shelf.expires > query.at.timestamp()
        away = np.where(lasts, 1.0 - shelf.vectors @ unit, np.inf).astype(np.float32)
        yield _Measured(scope.level(one), shelf, away)


def _best(one: _Measured, wanted: "Flags", limit: int) -> Iterator[Candidate]:
    """The best of one shelf: all of it has one level, so no other of it can come before these."""
    import numpy as np

    shelf = one.shelf
    rows = np.flatnonzero(wanted)
    order = np.lexsort((shelf.keys[rows], one.away[rows], -shelf.priorities[rows]))
    for row in rows[order][:limit]:
        distance = round(float(one.away[row]), 6)
        yield Candidate(int(shelf.keys[row]), one.level, int(shelf.priorities[row]), distance)


def _read(connection: Connection, where: Where, length: int) -> Shelf:
    """The shelf as the database has it now; vectors of another length are left out."""
    import numpy as np

    everything = select(func.count()).select_from(entries).where(*_active(where))
    rows = connection.execute(_entries(where, length)).all()
    vectors = np.frombuffer(b"".join(row.vector for row in rows), dtype="<f4")
    vectors = vectors.reshape(len(rows), length)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return Shelf(
        keys=np.array([row.key for row in rows], dtype=np.int64),
        priorities=np.array([row.priority for row in rows], dtype=np.int64),
        standing=np.array([row.type in STANDING for row in rows], dtype=np.bool_),
        expires=np.array(
            [row.expires_at.timestamp() if row.expires_at else np.inf for row in rows],
            dtype=np.float64,
        ),
        waiting=connection.execute(everything).scalar_one() - len(rows),
        vectors=(vectors / np.where(lengths > 0, lengths, 1.0)).astype(np.float32),
    )


def _active(where: Where) -> list[ColumnElement[bool]]:
    columns = entries.c
    return [
        columns.kind == where.kind,
        columns.scope == where.scope,
        columns.status == "Active",
    ]


def _entries(where: Where, length: int) -> "Select[tuple[int, str, datetime | None, int, bytes]]":
    joined = entries.join(entry_vectors, entry_vectors.c.entry_key == entries.c.key)
    joined = joined.outerjoin(note_types, note_types.c.name == entries.c.note_type)
    query = select(
        entries.c.key,
        entries.c.type,
        entries.c.expires_at,
        func.coalesce(note_types.c.priority, 0).label("priority"),
        entry_vectors.c.vector,
    ).select_from(joined)
    made_alike = (entry_vectors.c.model == where.model, entry_vectors.c.dimensions == length)
    return query.where(*_active(where), *made_alike).order_by(entries.c.key)
