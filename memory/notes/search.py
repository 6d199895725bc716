"""Notes and examples for one request, by the agent's strategies."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from sqlalchemy import ColumnElement, Connection, case, func, or_, select

from memory import scope
from memory.notes import store, vector_search
from memory.notes.agent_settings import InjectionOptions
from memory.notes.tables import entries, note_types
from memory.notes.types import Entry, EntryKind
from memory.notes.vector_cache import Shelves
from memory.notes.vector_search import SPARE_FACTOR, VectorQuery
from memory.scope import Scope
from memory.types import Vector

Order = Literal["Recent", "All", "Rated"]

_OF_WAITING: Mapping[EntryKind, str] = {
    "note": "of these only constraints and preferences were looked at",
    "example": "these were not looked at",
}


@dataclass(frozen=True, kw_only=True)
class FoundEntries:
    """What was found, best first; `why` says by which strategy, or why not by that one."""

    entries: Sequence[Entry] = ()
    why: str = ""
    distances: Mapping[int, float] = field(default_factory=dict)
    """By key, where it was found by meaning: 0 is the same, 2 the opposite."""
    waiting: int = 0
    """How many could not be compared: there is no vector."""


@dataclass(frozen=True, kw_only=True)
class NoteSearch:
    """One request within one transaction. Without a `vector`, `excuse` says why there is none."""

    connection: Connection
    shelves: Shelves
    generation: int
    viewer: Scope
    model: str
    vector: Vector | None
    excuse: str
    at: datetime

    def notes(self, options: InjectionOptions) -> FoundEntries:
        """The notes that the options ask for."""
        limit = options.max_notes
        match options.note_strategy:
            case "Relevant":
                return self._by_meaning("note", limit)
            case "Recent" | "All" as order:
                return self._by_order("note", order, limit)

    def examples(self, options: InjectionOptions) -> FoundEntries:
        """The examples that the options ask for."""
        limit = options.max_examples
        match options.example_strategy:
            case "Semantic":
                return self._by_meaning("example", limit)
            case "Recent" | "Rated" as order:
                return self._by_order("example", order, limit)

    def _by_meaning(self, kind: EntryKind, limit: int) -> FoundEntries:
        if self.vector is None:
            found = self._by_order(kind, "Recent", limit)
            why = f"{kind}s by date, not by meaning: {self.excuse}"
            return FoundEntries(entries=found.entries, why=why)
        query = VectorQuery(kind, self.viewer, self.model, self.vector, self.at)
        near = vector_search.nearest(self.connection, self.shelves, self.generation, query, limit)
        why = f"{kind}s by meaning"
        if near.waiting:
            why += f"; {near.waiting} have no vector yet: {_OF_WAITING[kind]}"
        entries_ = load_in_order(self.connection, near.keys)
        return FoundEntries(
            entries=entries_, why=why, distances=near.distances, waiting=near.waiting
        )

    def _by_order(self, kind: EntryKind, order: Order, limit: int) -> FoundEntries:
        most = limit * (1 + SPARE_FACTOR)
        keys = keys_in_order(self.connection, kind, self.viewer, order, at=self.at, limit=most)
        return FoundEntries(
            entries=load_in_order(self.connection, keys), why=f"{kind}s by strategy {order}"
        )


def keys_in_order(
    connection: Connection,
    kind: EntryKind,
    viewer: Scope,
    order: Order,
    *,
    at: datetime,
    limit: int,
) -> list[int]:
    """Keys of what the viewer may see: the specific first, then priority, then the order.

    Recent: the newest first. All: as they were written. Rated: the best score first.
    """
    levels = {scope.scope_key(one): scope.scope_level(one) for one in scope.visible_scopes(viewer)}
    level = case(levels, value=entries.c.scope)
    joined = entries.outerjoin(note_types, note_types.c.name == entries.c.note_type)
    query = (
        select(entries.c.key)
        .select_from(joined)
        .where(*visible_now(kind, viewer, at))
        .order_by(level, func.coalesce(note_types.c.priority, 0).desc(), *_by(order))
        .limit(limit)
    )
    return list(connection.execute(query).scalars())


def visible_now(kind: EntryKind, viewer: Scope, at: datetime) -> list[ColumnElement[bool]]:
    """What a viewer may be shown now, as SQL: Active, not expired, of a scope of theirs."""
    own = [scope.scope_key(one) for one in scope.visible_scopes(viewer)]
    columns = entries.c
    lasting = or_(columns.expires_at.is_(None), columns.expires_at > at)
    return [columns.kind == kind, columns.scope.in_(own), columns.status == "Active", lasting]


def load_in_order(connection: Connection, keys: Sequence[int]) -> list[Entry]:
    """These entries; those that are gone by now are left out."""
    found = store.entries_by_key(connection, keys)
    return [found[key] for key in keys if key in found]


def _by(order: Order) -> list[ColumnElement[object]]:
    columns = entries.c
    match order:
        case "Recent":
            return [columns.created_at.desc(), columns.key.desc()]
        case "All":
            return [columns.created_at, columns.key]
        case "Rated":
            return [columns.score.desc(), columns.created_at.desc(), columns.key.desc()]
