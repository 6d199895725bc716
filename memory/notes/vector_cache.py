"""The vectors of one scope's notes or examples, held in memory and kept up with the database.

A shelf is read by its scope's key and nothing else. What stands on it is told anew after every
write by anyone; only vectors of entries that are new or changed are read again.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from itertools import groupby
from operator import itemgetter
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import Connection, Row, String, bindparam, func, select, type_coerce

from memory.notes.store import IDS_PER_QUERY
from memory.notes.tables import entries, entry_vectors, note_types
from memory.notes.types import ALWAYS_RELEVANT_TYPES, EntryKind

if TYPE_CHECKING:
    import numpy as np
    from sqlalchemy import Select

    Floats = np.ndarray[tuple[int, ...], np.dtype[np.float32]]
    Numbers = np.ndarray[tuple[int, ...], np.dtype[np.int64]]
    Flags = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]
    Moments = np.ndarray[tuple[int, ...], np.dtype[np.float64]]
    Fact = Row[tuple[str, int, int, str, int, str | None]]

MOST = 500
"""Shelves that are held; the one that was not asked for the longest goes first."""


class ShelfKey(NamedTuple):
    """Which shelf is meant: the entries of one kind and one scope, by one model."""

    kind: EntryKind
    scope: str
    model: str
    length: int


@dataclass(frozen=True, kw_only=True)
class Shelf:
    """Active entries of one scope, row by row in the order of their keys.

    Vectors have length one. `standing` are those that hold whatever the task is: constraints and
    preferences. Of what has no vector of the model yet, which are `waiting` entries, only those
    stand here: `bare`, with zeros.
    """

    keys: "Numbers"
    versions: "Numbers"
    priorities: "Numbers"
    standing: "Flags"
    bare: "Flags"
    expires: "Moments"
    vectors: "Floats"
    waiting: int


class _Placed(NamedTuple):
    """Vectors in the order of their keys, which of the keys that were asked for, which bare."""

    vectors: "Floats"
    there: "Flags"
    bare: "Flags"


class Shelves:
    """Shelves as they are at a generation. Threads may share them."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._held: OrderedDict[ShelfKey, tuple[int, Shelf]] = OrderedDict()

    def at(
        self, connection: Connection, generation: int, wheres: Sequence[ShelfKey]
    ) -> Mapping[ShelfKey, Shelf]:
        """These shelves, all of one kind, as the connection's transaction sees them.

        `generation` is the one that this transaction read.
        """
        with self._lock:
            held = {where: self._held[where] for where in wheres if where in self._held}
        stale = [where for where in wheres if where not in held or held[where][0] != generation]
        told = _facts(connection, stale) if stale else {}
        found = {where: shelf for where, (_, shelf) in held.items() if where not in stale}
        for where in stale:
            before = held[where][1] if where in held else None
            found[where] = _shelf(connection, where, told.get(where.scope, ()), before)
        self._hold(generation, found)
        return found

    def _hold(self, generation: int, found: Mapping[ShelfKey, Shelf]) -> None:
        with self._lock:
            for where, shelf in found.items():
                self._held[where] = (generation, shelf)
                self._held.move_to_end(where)
            while len(self._held) > MOST:
                self._held.popitem(last=False)


def _shelf(
    connection: Connection, where: ShelfKey, facts: "Sequence[Fact]", before: Shelf | None
) -> Shelf:
    """The shelf that these facts tell of."""
    import numpy as np

    _, keys, versions, types, priorities, expires = zip(*facts, strict=True) if facts else ((),) * 6
    known = np.array(keys, dtype=np.int64), np.array(versions, dtype=np.int64)
    standing = np.array([one in ALWAYS_RELEVANT_TYPES for one in types], dtype=np.bool_)
    vectors, there, bare = _vectors(connection, where, known, standing, before)
    return Shelf(
        keys=known[0][there],
        versions=known[1][there],
        priorities=np.array(priorities, dtype=np.int64)[there],
        standing=standing[there],
        bare=bare,
        expires=np.array([_moment(one) for one in expires], dtype=np.float64)[there],
        vectors=vectors,
        waiting=len(facts) - len(vectors) + int(bare.sum()),
    )


def _vectors(
    connection: Connection,
    where: ShelfKey,
    known: "tuple[Numbers, Numbers]",
    standing: "Flags",
    before: Shelf | None,
) -> _Placed:
    """The vectors of these keys and versions; zeros for what stands and has none.

    Those that `before` holds are not read: no other text ever has the same key and version.
    """
    import numpy as np

    keys, versions = known
    rows = np.full(len(keys), -1)
    if before is not None and len(before.keys):
        places = np.searchsorted(before.keys, keys).clip(max=len(before.keys) - 1)
        same = (before.keys[places] == keys) & (before.versions[places] == versions)
        same &= ~before.bare[places]
        if same.all() and len(keys) == len(before.keys):
            return _Placed(before.vectors, same, before.bare)
        rows[same] = places[same]
    read = _read(connection, where, keys[rows < 0])
    new = np.array(sorted(read), dtype=np.int64)
    fresh = np.frombuffer(b"".join(read[key] for key in new.tolist()), dtype="<f4")
    fresh = _unit(fresh.reshape(len(new), where.length))
    held = before.vectors if before is not None else fresh[:0]
    lacking = (rows < 0) & np.isin(keys, new)
    rows[lacking] = len(held) + np.searchsorted(new, keys[lacking])
    there = (rows >= 0) | standing
    everything = np.concatenate([held, fresh, np.zeros((1, where.length), dtype=np.float32)])
    return _Placed(everything[rows[there]], there, rows[there] < 0)  # row -1 is the last: zeros


def _unit(vectors: "Floats") -> "Floats":
    import numpy as np

    squares = np.vecdot(vectors, vectors)[:, None]
    made: Floats = (vectors / np.sqrt(np.where(squares > 0, squares, 1.0))).astype(np.float32)
    return made


def _moment(text: str | None) -> float:
    return datetime.fromisoformat(text).timestamp() if text else float("inf")


def _facts(connection: Connection, wheres: Sequence[ShelfKey]) -> "Mapping[str, list[Fact]]":
    """What stands on these shelves now, by scope; each in the order of its keys."""
    given = {"kind": wheres[0].kind, "scopes": [where.scope for where in wheres]}
    rows = connection.execute(_standing_there(), given).all()
    return {of: list(facts) for of, facts in groupby(rows, key=itemgetter(0))}


def _read(connection: Connection, where: ShelfKey, keys: "Numbers") -> dict[int, bytes]:
    """The vectors of these entries of the shelf, where there are."""
    columns = entry_vectors.c
    query = select(columns.entry_key, columns.vector)
    query = query.where(columns.model == where.model, columns.dimensions == where.length)
    if len(keys) <= IDS_PER_QUERY:
        query = query.where(columns.entry_key.in_(keys.tolist()))
    else:
        on_it = (entries.c.kind == where.kind, entries.c.scope == where.scope)
        query = query.join(entries, entries.c.key == columns.entry_key)
        query = query.where(*on_it, entries.c.status == "Active")
    wanted = set(keys.tolist())
    return {key: vector for key, vector in connection.execute(query).all() if key in wanted}


@cache
def _standing_there() -> "Select[tuple[str, int, int, str, int, str | None]]":
    """Made once: making it takes longer than running it for few entries."""
    columns = entries.c
    joined = entries.outerjoin(note_types, note_types.c.name == columns.note_type)
    query = select(
        columns.scope,
        columns.key,
        columns.version,
        columns.type,
        func.coalesce(note_types.c.priority, 0),
        type_coerce(columns.expires_at, String),  # thousands of moments are slow to make
    ).select_from(joined)
    return query.where(
        columns.kind == bindparam("kind"),
        columns.scope.in_(bindparam("scopes", expanding=True)),
        columns.status == "Active",
    ).order_by(columns.scope, columns.key)
