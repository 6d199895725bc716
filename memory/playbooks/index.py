"""Search by words and by vectors. Both indexes are derived from the database.

Every change of an entry adds its key to the table `outdated` in the same transaction. The next
search, of any process, numbers these changes and writes them to the vector index before it
searches; the index remembers the last number written. So a killed process loses nothing, every
search sees all earlier changes, and a new, copied or remote index is brought up to date.
Without a vector index, or for archived playbooks, which it does not hold, a search compares all
vectors in the database.
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from time import monotonic
from typing import NamedTuple, TypeVar

from sqlalchemy import Connection, Engine, Row, and_, bindparam, exists, func, select

from contracts.errors import ModelRefused, ModelUnavailable
from memory.content import sanitize_text
from memory.database import exclusive_lock, read_transaction, write_transaction
from memory.errors import StoreBusy, StoreCorrupt, StoreUnavailable
from memory.indexing import searched_texts, texts_with_vector
from memory.playbooks import bm25
from memory.playbooks.store import filter_conditions
from memory.relevance import query_words
from memory.tables import (
    embedding_models,
    entries,
    entry_vectors,
    last_changes,
    outdated_entries,
)
from memory.types import Embedder, PlaybookFilter, Vector
from memory.vectors import embeddings
from memory.vectors.calibrate import measure_limit, store_limit
from memory.vectors.chroma import VectorIndexCorrupt, VectorIndexStale, VectorIndexUnavailable
from memory.vectors.embeddings import EMBEDDED_CHARACTERS, PROBE_TEXT, embed_each, embed_query
from memory.vectors.sync import IndexSync, Progress
from memory.vectors.vector_index import VectorIndex

T = TypeVar("T")

EMBEDDER_RETRY_S = 60.0
"""Seconds before a search asks again for missing vectors after the model did not answer."""

UNMEASURED_DISTANCE = 1.0
"""Distance limit, a right angle, while the model does not answer to be measured."""

REFRESH_WAIT_S = 2.0
"""Seconds that a search waits for another process that updates the vector index."""

_OWN_VECTORS = and_(entry_vectors.c.model == bindparam("model"), entry_vectors.c.dimensions > 0)
_IS_OUTDATED = exists(select(outdated_entries.c.number))
_STATE = select(
    func.max(entries.c.key).label("last_key"),
    func.count(entries.c.key).label("entries"),
    _IS_OUTDATED.label("is_outdated"),
    select(func.max(last_changes.c.number)).scalar_subquery().label("last_change"),
    select(func.min(entry_vectors.c.model)).scalar_subquery().label("first_model"),
    select(func.max(entry_vectors.c.model)).scalar_subquery().label("last_model"),
    select(func.min(entry_vectors.c.dimensions))
    .where(_OWN_VECTORS)
    .scalar_subquery()
    .label("shortest"),
    select(func.max(entry_vectors.c.dimensions))
    .where(_OWN_VECTORS)
    .scalar_subquery()
    .label("longest"),
    select(embedding_models.c.max_distance)
    .where(embedding_models.c.model == bindparam("model"))
    .scalar_subquery()
    .label("max_distance"),
)
"""One row: the highest key and the number of entries, whether changes wait to be numbered, the
last numbered change, the models of the stored vectors, the dimensions of those of the current
model, and its limit."""

_FIRST_KEY = select(func.min(entries.c.key)).where(entries.c.status != "Revoked")
_State = Row[tuple[object, ...]]

_log = logging.getLogger(__name__)


class IndexMatches(NamedTuple):
    """Results of each arm, best first: keys with BM25 scores, keys with cosine distances."""

    words: list[tuple[int, float]]
    vectors: list[tuple[int, float]] | None
    """None: the vectors could not be searched."""
    taught: list[tuple[int, float]]
    """Keys of playbooks with lessons, also of those that are not in `vectors`."""
    max_word_score: float
    """BM25 score of a playbook that matches the whole query as well as possible."""
    max_distance: float
    """Every playbook that is not in `vectors` is at least this distant."""
    query_vector: Vector | None


class PlaybookIndex:
    """Both search arms. Without an embedder only words are searched."""

    def __init__(
        self, engine: Engine, vectors: VectorIndex | None, embedder: Embedder | None
    ) -> None:
        self._engine = engine
        self._vectors = vectors
        self._embedder = embedder
        self._warned: set[str] = set()
        self._rebuild_failed = False
        self._retry_embedding_at = 0.0

    @property
    def model(self) -> str | None:
        """The name that vectors are stored under; None without an embedder."""
        return self._embedder.name if self._embedder else None

    def embed(self, texts: Sequence[str]) -> list[Vector] | None:
        """Return a vector for each text, empty for a text that the model refuses.

        None without an embedder, or, with a warning, if it does not answer.
        """
        if self._embedder is None or not texts:
            return None
        try:
            return embed_each(self._embedder, texts)
        except ModelUnavailable as error:
            self._warn_embedder(error)
            return None

    def search(
        self,
        text: str,
        where: PlaybookFilter,
        *,
        depth: int,
        max_distance: float | None,
        taught: int = 0,
    ) -> IndexMatches:
        """Return up to `depth` results of each arm, and the nearest `taught` that have lessons.

        Without `max_distance` the embedder's own limit holds.
        """
        text = sanitize_text(text[:EMBEDDED_CHARACTERS].replace("\0", " ")).strip()
        with read_transaction(self._engine) as connection:
            state = self._state(connection)
            scores, max_score = bm25.search_words(
                connection,
                query_words(text),
                where,
                among=state.entries,
                last_key=state.last_key or 0,
                limit=depth,
            )
        # An empty store is not embedded for: loading the model and Chroma takes a second.
        query = self._embed_first(text) if text and state.last_key else None
        if max_distance is None:
            max_distance = self._max_distance(state) if query is not None else 0.0
        mismatches = self._mismatches(state, query) if query is not None else {}
        for topic, message in mismatches.items():
            self._warn(topic, message)
        if query is None or "length" in mismatches:
            return IndexMatches(scores, None, [], max_score, max_distance, None)
        nearest = self._scan if self._vectors is None or where.archived else self._nearest
        near = nearest(query, where, depth, state)
        learned = nearest(query, replace(where, taught=True), taught, state) if taught else None
        # The limit is applied here, because Chroma's query has none.
        close, known = (
            [pair for pair in found or () if pair[1] <= max_distance] for found in (near, learned)
        )
        if len(close) == depth:
            max_distance = close[-1][1]
        vectors = close if near is not None else None
        return IndexMatches(scores, vectors, known, max_score, max_distance, query)

    def embed_changes(self) -> None:
        """Embed changed entries of all kinds, for searches that compare vectors of the database."""
        with read_transaction(self._engine) as connection:
            is_outdated = connection.execute(select(_IS_OUTDATED)).scalar()
        if is_outdated and self._embedder is not None:
            with (
                suppress(StoreBusy),  # another process embeds: compare the vectors that exist
                exclusive_lock(self._engine, "index", wait_s=REFRESH_WAIT_S),
            ):
                self._sync().number_changes()

    def refresh(self) -> None:
        """Bring the vector index up to date, and embed missing texts while the model answers."""
        self._retry_embedding_at = 0.0
        self._try(self._refresh)

    def reindex(self, progress: Progress | None = None) -> None:
        """Rebuild the vector index, and embed what the model in its present form has not."""
        self._rebuild_failed, self._retry_embedding_at = False, 0.0
        vector = self._sample_vector()
        if vector is not None and self.model is not None:
            with write_transaction(self._engine) as connection:
                embeddings.delete_other_vectors(connection, self.model, len(vector))
        self._try(lambda index: self._rebuild(index, progress))

    def vector_mismatches(self) -> Sequence[str]:
        """Return messages about stored vectors that do not compare with those of the model."""
        if self.model is None:
            return []
        with read_transaction(self._engine) as connection:
            state = self._state(connection)
        return list(self._mismatches(state, self._sample_vector()).values())

    def keys(self) -> set[int] | None:
        """Return the keys of all playbooks in the vector index, if there is one.

        Raises:
            VectorIndexCorrupt, VectorIndexUnavailable.
        """
        return self._vectors.keys() if self._vectors is not None else None

    def close(self) -> None:
        """Close the vector index."""
        if self._vectors is not None:
            self._vectors.close()

    def _state(self, connection: Connection) -> _State:
        return connection.execute(_STATE, {"model": self.model or ""}).one()

    def _max_distance(self, state: _State) -> float:
        """Return the limit of the model, measured and stored once for each store."""
        if self._embedder is None or self._embedder.max_distance is not None:
            return self._embedder.max_distance or 0.0 if self._embedder else 0.0
        if state.max_distance is not None:
            return float(state.max_distance)
        try:
            limit = measure_limit(self._embedder)
        except (ModelRefused, ModelUnavailable):
            return UNMEASURED_DISTANCE
        with write_transaction(self._engine) as connection:
            store_limit(connection, self._embedder.name, limit)
        return limit

    def _sample_vector(self) -> Vector | None:
        """Return the model's vector of one entry."""
        with read_transaction(self._engine) as connection:
            first = connection.execute(_FIRST_KEY).scalar_one()
            found = searched_texts(connection, [first]) if first else []
        return self._embed_first(texts_with_vector(found[0])[0].text, PROBE_TEXT) if found else None

    def _embed_first(self, *texts: str) -> Vector | None:
        """Return the vector of the first of these texts that the model does not refuse."""
        if self._embedder is None:
            return None
        try:
            for text in texts[:-1]:
                with suppress(ModelRefused):
                    return embed_query(self._embedder, text)
            return embed_query(self._embedder, texts[-1])
        except ModelUnavailable as error:
            self._warn_embedder(error)
            return None

    def _mismatches(self, state: _State, sample: Vector | None) -> dict[str, str]:
        """Return a message by topic for each way in which stored vectors differ from `sample`."""
        found: dict[str, str] = {}
        for model in {state.first_model, state.last_model} - {None, self.model}:
            found["model"] = (
                f"some vectors were made by {model!r}, and the model is {self.model!r} now: "
                "their playbooks are found by words only until `harness memory reindex`"
            )
        for length in {state.shortest, state.longest} - {None, len(sample) if sample else None}:
            if sample is not None:
                found["length"] = (
                    f"{self.model!r} makes vectors of {len(sample)} numbers now, and stored ones "
                    f"have {length}: searching by words only until `harness memory reindex`"
                )
        return found

    def _nearest(
        self, vector: Vector, where: PlaybookFilter, depth: int, state: _State
    ) -> list[tuple[int, float]] | None:
        def search(index: VectorIndex) -> list[tuple[int, float]]:
            if not state.is_outdated:
                with suppress(VectorIndexStale):
                    last_change = state.last_change or 0
                    return index.nearest(vector, where, depth, expected_change=last_change)
            self._refresh(index, wait_s=REFRESH_WAIT_S)
            return index.nearest(vector, where, depth)

        return self._try(search)

    def _scan(
        self, vector: Vector, where: PlaybookFilter, depth: int, state: _State
    ) -> list[tuple[int, float]]:
        if state.is_outdated:
            self.embed_changes()
        with read_transaction(self._engine) as connection:
            conditions = filter_conditions(where)
            found = embeddings.nearest_playbooks(connection, self.model or "", vector, conditions)
        return found[:depth]

    def _try(self, use: Callable[[VectorIndex], T]) -> T | None:
        """Use the vector index; if that fails, warn once and return None.

        A damaged index is rebuilt, but not again and again when that does not help.
        """
        if self._vectors is None:
            return None
        try:
            try:
                return use(self._vectors)
            except VectorIndexCorrupt as error:
                if self._rebuild_failed:
                    raise
                self._warn("damaged", f"the vector index is damaged and is rebuilt: {error}")
                self._rebuild_failed = True
                self._rebuild(self._vectors)
                result = use(self._vectors)
                self._rebuild_failed = False
                return result
        except StoreCorrupt:
            raise
        except (VectorIndexUnavailable, VectorIndexCorrupt, StoreUnavailable) as error:
            self._warn("unavailable", f"searching by words only: {error}")
            return None

    def _rebuild(self, index: VectorIndex, progress: Progress | None = None) -> None:
        with exclusive_lock(self._engine, "index"):
            index.drop(everything=True)
        self._refresh(index, progress)

    def _refresh(
        self, index: VectorIndex, progress: Progress | None = None, *, wait_s: float | None = None
    ) -> None:
        # One process at a time, or an old state that one has read could overwrite a newer one.
        with exclusive_lock(self._engine, "index", wait_s=wait_s):
            self._sync(progress).update(index)

    def _sync(self, progress: Progress | None = None) -> IndexSync:
        return IndexSync(self._engine, self.model or "", self._embed_missing, progress)

    def _embed_missing(self, texts: Sequence[str]) -> list[Vector] | None:
        """Like `embed`, but after an outage not with every search."""
        if monotonic() < self._retry_embedding_at:
            return None
        vectors = self.embed(texts)
        if vectors is None:
            self._retry_embedding_at = monotonic() + EMBEDDER_RETRY_S
        return vectors

    def _warn_embedder(self, error: ModelUnavailable) -> None:
        self._warn("embedder", f"searching by words only until the model answers: {error}")

    def _warn(self, topic: str, message: str) -> None:
        if topic not in self._warned:
            self._warned.add(topic)
            _log.warning("%s", message)
