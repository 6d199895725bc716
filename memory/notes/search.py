"""Search for the notes and examples of one request, by meaning or by date; lists for people.

A viewer's search reads the entries of the viewer's own scopes and nothing else. A search by
meaning compares the task with every one of them: it misses none, and there is no index that
could be stale.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from heapq import nsmallest
from typing import Literal, NamedTuple

from sqlalchemy import ColumnElement, Connection, Row, and_, case, func, or_, select

from memory.notes.agent_settings import ExampleStrategy, NoteStrategy
from memory.notes.store import entries_by_key, read_notes, select_entries
from memory.notes.types import ALWAYS_RELEVANT_TYPES, Entry, EntryFilter, EntryKind
from memory.scope import Scope, scope_key, scope_level, visible_scopes
from memory.tables import entries, entry_vectors, note_types
from memory.types import Vector
from memory.vectors.embeddings import cosine_distances

Order = Literal["Recent", "All", "Rated"]

MAX_DISTANCE = 0.85
"""Cosine distance from which on a note is unrelated to a task."""

EQUAL_DISTANCE = 0.05
"""Up to this difference notes count as equally near, so that the more specific one comes first."""

SPARE_FACTOR = 2
"""For each entry that is wanted, two more are found, in case it does not fit the budget."""

_WITHOUT_VECTOR: Mapping[EntryKind, str] = {
    "note": "of these only constraints and preferences were considered",
    "example": "these were not considered",
}


_MAX_WORDS = 100
"""Words of a filter's text that are used: databases limit the parameters of a statement."""


@dataclass(frozen=True, kw_only=True)
class FoundEntries:
    """Search results, best first. `reason` names the strategy, or why another one was used."""

    entries: Sequence[Entry] = ()
    reason: str = ""
    distances: Mapping[int, float] = field(default_factory=dict)
    """Cosine distance from the task, by key, for entries that were found by meaning."""
    without_vector: int = 0
    """How many visible entries have no embedding, and so could not be compared."""


@dataclass(frozen=True, kw_only=True)
class NoteSearch:
    """A search within one transaction. Without a `vector`, `no_vector_reason` says why."""

    connection: Connection
    viewer: Scope
    at: datetime
    model: str
    vector: Vector | None
    no_vector_reason: str = ""

    def find(
        self, kind: EntryKind, strategy: NoteStrategy | ExampleStrategy, limit: int
    ) -> FoundEntries:
        """Return the best entries of a strategy: `limit`, and spare ones behind them."""
        match strategy:
            case "Relevant" | "Semantic" if self.vector is not None:
                return self._by_meaning(kind, self.vector, limit)
            case "Relevant" | "Semantic":
                reason = f"{kind}s by date, not by meaning: {self.no_vector_reason}"
                return self._by_order(kind, "Recent", limit, reason)
            case "Recent" | "All" | "Rated":
                return self._by_order(kind, strategy, limit, f"{kind}s by strategy {strategy}")

    def _by_order(self, kind: EntryKind, order: Order, limit: int, reason: str) -> FoundEntries:
        limit *= 1 + SPARE_FACTOR
        found = list_visible(
            self.connection, kind, self.viewer, order=order, at=self.at, limit=limit
        )
        return FoundEntries(entries=found, reason=reason)

    def _by_meaning(self, kind: EntryKind, vector: Vector, limit: int) -> FoundEntries:
        rows = self._visible_vectors(kind, len(vector))
        embedded = [row for row in rows if row.vector is not None]
        distances = dict(
            zip(
                [row.key for row in embedded],
                cosine_distances([row.vector for row in embedded], vector),
                strict=True,
            )
        )
        levels = {scope_key(scope): scope_level(scope) for scope in visible_scopes(self.viewer)}
        candidates = [
            Candidate(
                level=levels[row.scope],
                priority=row.priority,
                distance=distances.get(row.key),
                key=row.key,
                always_relevant=row.type in ALWAYS_RELEVANT_TYPES,
            )
            for row in rows
        ]
        keys = [one.key for one in choose_candidates(candidates, limit)]
        found = entries_by_key(self.connection, keys)
        reason = f"{kind}s by meaning"
        if missing := len(rows) - len(embedded):
            reason += f"; {missing} have no vector yet: {_WITHOUT_VECTOR[kind]}"
        return FoundEntries(
            entries=[found[key] for key in keys],
            reason=reason,
            distances={key: distances[key] for key in keys if key in distances},
            without_vector=missing,
        )

    def _visible_vectors(self, kind: EntryKind, length: int) -> Sequence[Row[tuple[object, ...]]]:
        embedded = and_(
            entry_vectors.c.entry_key == entries.c.key,
            entry_vectors.c.model == self.model,
            entry_vectors.c.dimensions == length,
        )
        joined = entries.outerjoin(note_types, note_types.c.name == entries.c.category)
        query = select(
            entries.c.key,
            entries.c.scope,
            entries.c.type,
            func.coalesce(note_types.c.priority, 0).label("priority"),
            entry_vectors.c.vector,
        ).select_from(joined.outerjoin(entry_vectors, embedded))
        return self.connection.execute(query.where(*_visible(kind, self.viewer, self.at))).all()


class Candidate(NamedTuple):
    """A visible entry. Level 1 is the most specific scope; `distance` is None without a vector."""

    level: int
    priority: int
    distance: float | None
    key: int
    always_relevant: bool

    def rank(self) -> tuple[int, int, float, int]:
        """Return the sort key: more specific scope, then higher priority, then smaller distance."""
        distance = 1.0 if self.distance is None else self.distance
        return (self.level, -self.priority, distance, self.key)


def choose_candidates(candidates: Sequence[Candidate], limit: int) -> list[Candidate]:
    """Return the best `limit` candidates by rank, and spare ones behind them.

    Those that resemble the task come before those that apply to every task.
    """
    distances = [one.distance for one in candidates if one.distance is not None]
    nearest = nsmallest(limit, distances) or [MAX_DISTANCE]
    farthest = min(MAX_DISTANCE, max(nearest[0] + EQUAL_DISTANCE, nearest[-1]))
    similar, others = [], []
    for one in candidates:
        if one.distance is not None and one.distance <= farthest:
            similar.append(one)
        elif one.always_relevant:
            others.append(one)
    ranked = [*sorted(similar, key=Candidate.rank), *sorted(others, key=Candidate.rank)]
    # Spare ones come last: they are used only where a better entry does not fit.
    spare = ranked[limit : limit * (1 + SPARE_FACTOR)]
    return [*sorted(ranked[:limit], key=Candidate.rank), *spare]


def list_visible(
    connection: Connection,
    kind: EntryKind,
    viewer: Scope,
    *,
    order: Order,
    at: datetime,
    limit: int,
) -> list[Entry]:
    """Return the entries that a viewer may see: the more specific scope first, then priority.

    Among equals, Recent puts the newest first, All the oldest, Rated the best score.
    """
    levels = {scope_key(scope): scope_level(scope) for scope in visible_scopes(viewer)}
    level = case(levels, value=entries.c.scope)
    priority = func.coalesce(note_types.c.priority, 0).desc()
    query = select_entries(kind).where(*_visible(kind, viewer, at))
    query = query.order_by(level, priority, *_order_columns(order)).limit(limit)
    return read_notes(connection, query)


def _visible(kind: EntryKind, viewer: Scope, at: datetime) -> list[ColumnElement[bool]]:
    """Return conditions for the entries a viewer may see: Active, not expired, in its scopes."""
    scopes = [scope_key(scope) for scope in visible_scopes(viewer)]
    columns = entries.c
    lasting = or_(columns.expires_at.is_(None), columns.expires_at > at)
    return [columns.kind == kind, columns.scope.in_(scopes), columns.status == "Active", lasting]


def _order_columns(order: Order) -> list[ColumnElement[object]]:
    newest_first: list[ColumnElement[object]]
    newest_first = [entries.c.created_at.desc(), entries.c.key.desc()]
    match order:
        case "Recent":
            return newest_first
        case "All":
            return [entries.c.created_at, entries.c.key]
        case "Rated":
            return [entries.c.score.desc(), *newest_first]


def list_entries(connection: Connection, kind: EntryKind, where: EntryFilter) -> list[Entry]:
    """Return one page of the entries that match the filter, in its order."""
    query = select_entries(kind).where(*_conditions(kind, where)).order_by(*_order(where))
    query = query.limit(where.limit).offset(where.offset)
    return read_notes(connection, query)


def count_entries(connection: Connection, kind: EntryKind, where: EntryFilter) -> int:
    """Return how many entries match the filter on all pages."""
    query = select(func.count()).select_from(entries).where(*_conditions(kind, where))
    return int(connection.execute(query).scalar_one())


def _conditions(kind: EntryKind, where: EntryFilter) -> list[ColumnElement[bool]]:
    columns = entries.c
    values = {
        "status": where.status,
        "type": where.type,
        "category": where.note_type,
        "agent": where.agent,
        "user_id": where.user,
        "company": where.company,
        "source_run": where.source_run,
    }
    conditions = [columns[name] == value for name, value in values.items() if value is not None]
    scope_columns = {"agent": columns.agent, "user": columns.user_id, "company": columns.company}
    if where.scope_kind == "everyone":
        conditions += [column.is_(None) for column in scope_columns.values()]
    elif where.scope_kind is not None:
        conditions.append(scope_columns[where.scope_kind].is_not(None))
    if where.author is not None:
        conditions.append((columns.source + " ").startswith(f"{where.author} "))
    if where.flagged is not None:
        has_none = func.length(func.cast(columns.flags, columns.text.type)) <= 2  # the JSON is []
        conditions.append(~has_none if where.flagged else has_none)
    for word in where.text.split()[:_MAX_WORDS]:
        texts = (columns.text, columns.output)
        conditions.append(or_(*(text.icontains(word, autoescape=True) for text in texts)))
    return [columns.kind == kind, *conditions]


def _order(where: EntryFilter) -> list[ColumnElement[object]]:
    columns = entries.c
    by: dict[str, list[ColumnElement[object]]] = {
        "updated": [columns.updated_at],
        "created": [columns.created_at],
        "type": [columns.type, columns.category],
        "status": [columns.status],
        "score": [columns.score],
        "text": [func.lower(columns.text)],
        "scope": [columns.company, columns.user_id, columns.agent],
    }
    keys = [*by[where.sort], columns.key]
    return [key.desc() if where.descending else key.asc() for key in keys]
