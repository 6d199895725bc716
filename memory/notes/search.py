"""Search for the notes and examples of one request, by relevance or by date; lists for people.

A viewer's search finds entries of the viewer's own scopes and nothing else. A search by relevance
compares the task with the vector of every one of them, and looks its words up in the index that
each change of an entry writes: it misses none, and nothing can be stale.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from heapq import nlargest
from typing import Literal, NamedTuple

from sqlalchemy import ColumnElement, Connection, Row, and_, case, func, or_, select

from memory.notes.agent_settings import ExampleStrategy, NoteStrategy
from memory.notes.store import entries_by_key, read_notes, select_entries
from memory.notes.types import ALWAYS_RELEVANT_TYPES, Entry, EntryFilter, EntryKind
from memory.relevance import K1, fuse_scores, inverse_frequency, query_words
from memory.scope import Scope, scope_key, scope_level, visible_scopes
from memory.tables import entries, entry_vectors, entry_words, note_types
from memory.types import Vector
from memory.vectors.embeddings import cosine_distances

Order = Literal["Recent", "All", "Rated"]

MAX_DISTANCE = 0.85
"""Cosine distance from which on a note that shares no word with a task is unrelated to it."""

NOTE_WORD_WEIGHT = 0.5
"""Weight of the words against the vectors. On four public sets stored as notes nDCG@10 is 0.733
with it and 0.676 without words (`python -m benchmarks.retrieval`). The 1.0 of playbooks gives 0.01
more there, and costs tasks that share hardly a word with their notes: see `docs/why/memory.md`."""

MIN_RELEVANCE = (1 - MAX_DISTANCE) / (1 + NOTE_WORD_WEIGHT)
"""Relevance of a note at that distance."""

EQUAL_RELEVANCE = 0.05 / (1 + NOTE_WORD_WEIGHT)
"""Up to this difference, a cosine distance of 0.05, notes count as equally relevant, so that the
more specific one comes first."""

SPARE_FACTOR = 2
"""For each entry that is wanted, two more are found, in case it does not fit the budget."""

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
    task: str
    model: str
    vector: Vector | None
    no_vector_reason: str = ""

    def find(
        self, kind: EntryKind, strategy: NoteStrategy | ExampleStrategy, limit: int
    ) -> FoundEntries:
        """Return the best entries of a strategy: `limit`, and spare ones behind them."""
        match strategy:
            case "Relevant" | "Semantic" if self.vector is not None or self.task:
                return self._by_relevance(kind, limit)
            case "Relevant" | "Semantic":
                reason = f"{kind}s by date: {self.no_vector_reason}"
                return self._by_order(kind, "Recent", limit, reason)
            case "Recent" | "All" | "Rated":
                return self._by_order(kind, strategy, limit, f"{kind}s by strategy {strategy}")

    def _by_order(self, kind: EntryKind, order: Order, limit: int, reason: str) -> FoundEntries:
        limit *= 1 + SPARE_FACTOR
        found = list_visible(
            self.connection, kind, self.viewer, order=order, at=self.at, limit=limit
        )
        return FoundEntries(entries=found, reason=reason)

    def _by_relevance(self, kind: EntryKind, limit: int) -> FoundEntries:
        rows = self._visible_rows(kind, len(self.vector or ()))
        distances = self._distances(rows)
        relevance = self._relevance(rows, distances)
        levels = {scope_key(scope): scope_level(scope) for scope in visible_scopes(self.viewer)}
        candidates = [
            Candidate(
                level=levels[row.scope],
                priority=row.priority,
                relevance=relevance.get(row.key, 0.0),
                key=row.key,
                # Without the model nothing tells which entries are unrelated.
                always_relevant=self.vector is None or row.type in ALWAYS_RELEVANT_TYPES,
            )
            for row in rows
        ]
        keys = [one.key for one in choose_candidates(candidates, limit)]
        found = entries_by_key(self.connection, keys)
        reason = f"{kind}s by meaning and words"
        missing = sum(row.vector is None for row in rows)
        if self.vector is None:
            reason = f"{kind}s by words, then by date: {self.no_vector_reason}"
        elif missing:
            reason += f"; {missing} have no vector yet: these by words only"
        return FoundEntries(
            entries=[found[key] for key in keys],
            reason=reason,
            distances={key: distances[key] for key in keys if key in distances},
            without_vector=missing if self.vector is not None else 0,
        )

    def _distances(self, rows: Sequence[Row[tuple[object, ...]]]) -> dict[int, float]:
        embedded = [row for row in rows if row.vector is not None]
        if self.vector is None or not embedded:
            return {}
        found = cosine_distances([row.vector for row in embedded], self.vector)
        return dict(zip([row.key for row in embedded], found, strict=True))

    def _relevance(
        self, rows: Sequence[Row[tuple[object, ...]]], distances: Mapping[int, float]
    ) -> dict[int, float]:
        words, highest = self._word_scores({row.key for row in rows})
        vectors = None if self.vector is None else list(distances.items())
        return fuse_scores(
            words, vectors, max_word_score=highest, max_distance=1.0, word_weight=NOTE_WORD_WEIGHT
        )

    def _word_scores(self, visible: Collection[int]) -> tuple[list[tuple[int, float]], float]:
        """Return the BM25 scores of visible entries by key, and the highest possible score."""
        query, columns = query_words(self.task), entry_words.c
        stored = select(columns.entry_key, columns.word, columns.impact)
        rows = self.connection.execute(stored.where(columns.word.in_(query)))
        found = [(key, word, impact) for key, word, impact in rows if key in visible]
        # Only visible entries count: what others keep has no influence.
        frequencies = Counter(word for _, word, _ in found)
        weights = {word: inverse_frequency(frequencies[word], len(visible)) for word in query}
        scores: dict[int, float] = {}
        for key, word, impact in found:
            scores[key] = scores.get(key, 0.0) + weights[word] * impact
        return list(scores.items()), (K1 + 1) * sum(weights.values())

    def _visible_rows(self, kind: EntryKind, length: int) -> Sequence[Row[tuple[object, ...]]]:
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
    """A visible entry. Level 1 is the most specific scope."""

    level: int
    priority: int
    relevance: float
    key: int
    always_relevant: bool

    def rank(self) -> tuple[int, int, float, int]:
        """Return the sort key: specific scope, high priority, relevance, then the newest first."""
        return (self.level, -self.priority, -round(self.relevance, 6), -self.key)


def choose_candidates(candidates: Sequence[Candidate], limit: int) -> list[Candidate]:
    """Return the best `limit` candidates by rank, and spare ones behind them.

    Those that resemble the task come before those that apply to every task.
    """
    best = nlargest(limit, (one.relevance for one in candidates)) or [0.0]
    least = max(MIN_RELEVANCE, min(best[0] - EQUAL_RELEVANCE, best[-1]))
    similar, others = [], []
    for one in candidates:
        if one.relevance >= least:
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
