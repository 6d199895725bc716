"""Search by meaning among what a viewer may see, and only there: exact, in memory.

A viewer's search looks at the shelves of their own scopes, so another user's note is never even
compared. An exact scan of 10,000 vectors takes half a millisecond, finds everything, and has no
index of its own that could be stale or damaged.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import Connection

from memory import scope
from memory.notes.ranking import Candidate, choose_candidates, distance_limit
from memory.notes.types import EntryKind
from memory.notes.vector_cache import Shelf, ShelfKey, Shelves
from memory.scope import Scope
from memory.types import Vector

if TYPE_CHECKING:
    import numpy as np

    Floats = np.ndarray[tuple[int, ...], np.dtype[np.float32]]
    Flags = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]


SPARE_FACTOR = 2
"""This many times more is found than is asked for, for what does not fit a budget."""


class VectorQuery(NamedTuple):
    """What is meant, who asks, and when: what is provisional holds until then only."""

    kind: EntryKind
    viewer: Scope
    model: str
    vector: Vector
    at: datetime


class NearestEntries(NamedTuple):
    """Keys, best first, the distances of those that have one, and how many were not compared."""

    keys: list[int]
    distances: dict[int, float]
    waiting: int


class _Measured(NamedTuple):
    """A shelf and how far each of its rows is from the query."""

    level: int
    shelf: Shelf
    away: "Floats"


def nearest(
    connection: Connection, shelves: Shelves, generation: int, query: VectorQuery, limit: int
) -> NearestEntries:
    """What the viewer may see and the query means, best first.

    Behind the `limit` best come up to `SPARE` times as many more.
    """
    most = limit * (1 + SPARE_FACTOR)
    measured = list(_measured(connection, shelves, generation, query))
    waiting = sum(one.shelf.waiting for one in measured)
    measured = [one for one in measured if len(one.away)]
    far = _reach(measured, limit)
    found = choose_candidates(
        [c for one in measured for c in _best(one, one.away <= far, most)],
        [c for one in measured for c in _best(one, one.shelf.standing & (one.away <= 2), most)],
        limit,
    )
    bare = {int(key) for one in measured for key in one.shelf.keys[one.shelf.bare]}
    distances = {one.key: one.distance for one in found[:most] if one.key not in bare}
    return NearestEntries([one.key for one in found[:most]], distances, waiting)


def _reach(measured: Sequence[_Measured], limit: int) -> float:
    import numpy as np

    if not measured:
        return 0.0
    away = np.concatenate([one.away for one in measured])
    first = np.partition(away, limit - 1)[:limit] if limit < len(away) else away
    return distance_limit(float(first.min()), float(first.max()))


def _measured(
    connection: Connection, shelves: Shelves, generation: int, query: VectorQuery
) -> Iterator[_Measured]:
    import numpy as np

    unit = np.asarray(query.vector, dtype=np.float32)
    unit = unit / (np.linalg.norm(unit) or 1.0)
    wheres = {
        ShelfKey(query.kind, scope.scope_key(one), query.model, len(unit)): scope.scope_level(one)
        for one in scope.visible_scopes(query.viewer)
    }
    found = shelves.at(connection, generation, list(wheres))
    for where, level in wheres.items():
        shelf = found[where]
        # Not `@`: its threads wait for each other, on a busy machine fifty times as long.
        near = np.vecdot(shelf.vectors, unit)
        lasts = shelf.expires > query.at.timestamp()
        yield _Measured(level, shelf, np.where(lasts, 1.0 - near, np.inf).astype(np.float32))


def _best(one: _Measured, wanted: "Flags", limit: int) -> Iterator[Candidate]:
    """The best of one shelf: all of it has one level, so no other of it can come before these."""
    import numpy as np

    shelf = one.shelf
    rows = np.flatnonzero(wanted)
    order = np.lexsort((shelf.keys[rows], one.away[rows], -shelf.priorities[rows]))
    for row in rows[order][:limit]:
        distance = round(float(one.away[row]), 6)
        yield Candidate(int(shelf.keys[row]), one.level, int(shelf.priorities[row]), distance)
