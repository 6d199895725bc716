"""Search over words and vectors; both are made from the database and kept up with it.

Each change of a playbook leaves its key in the table `outdated`, in the change's own
transaction. Whoever searches next numbers these changes, one process at a time, and brings the
vectors up to date first. An index tells up to which number it was brought. So a process that
dies anywhere loses nothing, a search sees every change that was made before it, by anyone, and
an index that is new, was copied, or belongs to another host of the same store is completed.
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from time import monotonic
from typing import NamedTuple, TypeVar

from sqlalchemy import (
    Connection,
    Engine,
    Row,
    and_,
    bindparam,
    exists,
    func,
    select,
)

from contracts.errors import ModelRefused, ModelUnavailable
from memory.content import embedding_text, sanitize_text
from memory.database import exclusive_lock, read_transaction, write_transaction
from memory.errors import StoreCorrupt, StoreUnavailable
from memory.playbooks import bm25
from memory.tables import last_changes, outdated_playbooks, playbook_vectors, playbooks
from memory.types import Embedder, PlaybookFilter, Vector
from memory.vectors import stored_vectors
from memory.vectors.chroma import VectorIndexCorrupt, VectorIndexStale, VectorIndexUnavailable
from memory.vectors.embedding import EMBEDDED_CHARACTERS, PROBE_TEXT, embed_each, embed_query
from memory.vectors.sync import IndexSync, Progress
from memory.vectors.vector_index import VectorIndex
from memory.words import query_words

Given = TypeVar("Given")

SLOW_REFRESH_CHANGES = 2_000
"""Whoever has to wait for more than these, which takes seconds, is told why."""

EMBEDDER_RETRY_S = 60.0
"""For how long no search asks again for vectors that a model did not make."""

REFRESH_WAIT_S = 2.0
"""How long a search waits for another process that brings the vectors up to date."""

_OURS = and_(playbook_vectors.c.model == bindparam("model"), playbook_vectors.c.dimensions > 0)
_STATE = select(
    func.max(playbooks.c.key).label("last"),
    exists(select(outdated_playbooks.c.number)).label("is_outdated"),
    select(func.max(last_changes.c.number)).scalar_subquery().label("number"),
    *(
        part.scalar_subquery().label(name)
        for name, part in {
            "first_model": select(func.min(playbook_vectors.c.model)),
            "last_model": select(func.max(playbook_vectors.c.model)),
            "shortest": select(func.min(playbook_vectors.c.dimensions)).where(_OURS),
            "longest": select(func.max(playbook_vectors.c.dimensions)).where(_OURS),
        }.items()
    ),
)
"""The number of playbooks ever made, and of changes, None when there is none; whether changes
wait to be numbered; which models made what is kept, and how long the vectors of ours are."""


_FIRST = select(playbooks.c.title, playbooks.c.use_case).order_by(playbooks.c.key).limit(1)

_log = logging.getLogger(__name__)


class IndexMatches(NamedTuple):
    """What each arm found, best first: keys with BM25 scores, keys with cosine distances."""

    words: list[tuple[int, float]]
    vectors: list[tuple[int, float]] | None
    """None: this arm could not be asked."""
    max_word_score: float
    """The BM25 score of a playbook that says all of the query as strongly as can be."""
    max_distance: float
    """No playbook that the vectors left out is nearer than this distance."""
    query_vector: Vector | None
    """The query's own, for whoever ranks lessons by it."""


class PlaybookIndex:
    """Both arms of the search. Without an embedder only words are searched."""

    def __init__(
        self, engine: Engine, vectors: VectorIndex | None, embedder: Embedder | None
    ) -> None:
        self._engine = engine
        self._vectors = vectors
        self._embedder = embedder
        self._warned: set[str] = set()
        self._given_up = False
        self._asks_again = 0.0

    @property
    def model(self) -> str | None:
        """The name that vectors are kept under; None without an embedder."""
        return self._embedder.name if self._embedder else None

    def embed(self, texts: Sequence[str]) -> list[Vector] | None:
        """Vectors, an empty one of a text that the model refuses.

        None when there is no embedder or it does not answer: warned of once.
        """
        if self._embedder is None or not texts:
            return None
        try:
            return embed_each(self._embedder, texts)
        except ModelUnavailable as error:
            self._warn_of_no_answer(error)
            return None

    def search(
        self, text: str, where: PlaybookFilter, *, depth: int, max_distance: float | None
    ) -> IndexMatches:
        """Ask both arms for their best; the filter holds in each.

        Without a `max_distance` the embedder's own limit holds.
        """
        if max_distance is None:
            max_distance = self._embedder.max_distance if self._embedder else 0.0
        text = sanitize_text(text[:EMBEDDED_CHARACTERS].replace("\0", " ")).strip()
        with read_transaction(self._engine) as connection:
            state = self._state(connection)
            spoken, most = bm25.search_words(
                connection, query_words(text), where, among=state.last or 0, limit=depth
            )
        # Nothing kept is found without loading a model and Chroma, which takes a second.
        query = self._understood(text) if text and state.last else None
        unlike = self._unlike(state, query) if query is not None else {}
        for what, message in unlike.items():
            self._warn(what, message)
        if query is None or "length" in unlike:
            return IndexMatches(spoken, None, most, max_distance, None)
        near = self._nearest(query, where, depth, state)
        close = [pair for pair in near if pair[1] <= max_distance] if near is not None else None
        farthest = close[-1][1] if close and len(close) == depth else max_distance
        return IndexMatches(spoken, close, most, farthest, query)

    def refresh(self) -> None:
        """Bring the vectors up to date; embeds what has no vector yet, while the model answers."""
        self._asks_again = 0.0
        self._tried(self._refresh)

    def rebuild(self) -> None:
        """Make the vector index anew from the vectors that are kept and whole."""
        self._given_up, self._asks_again = False, 0.0
        if self.model is not None:
            with write_transaction(self._engine) as connection:
                stored_vectors.queue_missing(connection)
        self._tried(lambda into: self._rebuild(into, damaged=True))

    def reindex(self, progress: Progress | None = None) -> None:
        """The same, after embedding what this model, as it is now, has made no vector of."""
        self._given_up, self._asks_again = False, 0.0
        now = self._made_now()
        if now is not None and self.model is not None:
            with write_transaction(self._engine) as connection:
                stored_vectors.delete_other_vectors(connection, self.model, len(now))
        self._tried(lambda into: self._rebuild(into, progress, damaged=not into.is_intact()))

    def vector_mismatches(self) -> Sequence[str]:
        """Why some kept vectors cannot be compared with what the model makes, for a person."""
        if self.model is None:
            return []
        with read_transaction(self._engine) as connection:
            state = self._state(connection)
        return list(self._unlike(state, self._made_now()).values())

    def is_sound(self) -> bool:
        """Whether the vector index can be opened; also true where that cannot be tried."""
        try:
            return self._vectors is None or self._vectors.is_intact()
        except VectorIndexUnavailable:
            return True

    def keys(self) -> tuple[set[int], set[int]] | None:
        """What the vector index holds, live and archived; None without one.

        Raises:
            VectorsBroken, VectorsAway.
        """
        return self._vectors.keys() if self._vectors is not None else None

    def close(self) -> None:
        """Let go of the vector index."""
        if self._vectors is not None:
            self._vectors.close()

    def _state(self, connection: Connection) -> Row[tuple[object, ...]]:
        return connection.execute(_STATE, {"model": self.model or ""}).one()

    def _made_now(self) -> Vector | None:
        """What the model makes of the text of one playbook."""
        with read_transaction(self._engine) as connection:
            first = connection.execute(_FIRST).one_or_none()
        return self._understood(embedding_text(*first), PROBE_TEXT) if first is not None else None

    def _understood(self, *texts: str) -> Vector | None:
        """The vector of the first of these that the model takes."""
        if self._embedder is None:
            return None
        try:
            for text in texts[:-1]:
                with suppress(ModelRefused):
                    return embed_query(self._embedder, text)
            return embed_query(self._embedder, texts[-1])
        except ModelUnavailable as error:
            self._warn_of_no_answer(error)
            return None

    def _unlike(self, state: Row[tuple[object, ...]], made: Vector | None) -> dict[str, str]:
        """What is unlike between kept vectors and what the model makes, and what that means."""
        found: dict[str, str] = {}
        for model in {state.first_model, state.last_model} - {None, self.model}:
            found["model"] = (
                f"some vectors were made by {model!r}, and the model is {self.model!r} now: "
                "their playbooks are found by words only until `harness memory reindex`"
            )
        for length in {state.shortest, state.longest} - {None, len(made) if made else None}:
            if made is not None:
                found["length"] = (
                    f"{self.model!r} makes vectors of {len(made)} numbers now, and those kept "
                    f"have {length}: searching by words only until `harness memory reindex`"
                )
        return found

    def _nearest(
        self, vector: Vector, where: PlaybookFilter, depth: int, state: Row[tuple[object, ...]]
    ) -> list[tuple[int, float]] | None:
        def ask(into: VectorIndex) -> list[tuple[int, float]]:
            if not state.is_outdated:
                with suppress(VectorIndexStale):
                    return into.nearest(vector, where, depth, expected_change=state.number or 0)
            self._refresh(into, wait_s=REFRESH_WAIT_S)
            return into.nearest(vector, where, depth)

        return self._tried(ask)

    def _tried(self, do: Callable[[VectorIndex], Given]) -> Given | None:
        """What it gives; None, and one warning, where the vectors cannot be had.

        A damaged index is made anew, but not time and again when that does not mend it.
        """
        if self._vectors is None:
            return None
        try:
            try:
                return do(self._vectors)
            except VectorIndexCorrupt as error:
                if self._given_up:
                    raise
                self._warn("broken", f"the vector index is damaged and is made anew: {error}")
                self._given_up = True
                self._rebuild(self._vectors, damaged=True)
                given = do(self._vectors)
                self._given_up = False
                return given
        except StoreCorrupt:
            raise
        except (VectorIndexUnavailable, VectorIndexCorrupt, StoreUnavailable) as error:
            self._warn("away", f"searching by words only: {error}")
            return None

    def _warn_of_no_answer(self, error: ModelUnavailable) -> None:
        self._warn("embedder", f"searching by words only until it answers: {error}")

    def _rebuild(
        self, into: VectorIndex, progress: Progress | None = None, *, damaged: bool
    ) -> None:
        with exclusive_lock(self._engine, "index"):
            into.drop(damaged=damaged)
        self._refresh(into, progress)

    def _refresh(
        self, into: VectorIndex, progress: Progress | None = None, *, wait_s: float | None = None
    ) -> None:
        # One at a time, or an old state that one process read could overwrite a newer one.
        told = progress or self._tell_if_long
        with exclusive_lock(self._engine, "index", wait_s=wait_s):
            IndexSync(self._engine, self.model or "", self._owed, told).update(into)

    def _owed(self, texts: Sequence[str]) -> list[Vector] | None:
        """As `embed`, for what waits for a vector: after an outage not with every search."""
        if monotonic() < self._asks_again:
            return None
        made = self.embed(texts)
        if made is None:
            self._asks_again = monotonic() + EMBEDDER_RETRY_S
        return made

    def _tell_if_long(self, done: int, total: int) -> None:
        if total - done > SLOW_REFRESH_CHANGES:
            self._warn("long", f"bringing {total - done:,} changes into the vector index first")

    def _warn(self, what: str, message: str) -> None:
        if what not in self._warned:
            self._warned.add(what)
            _log.warning("%s", message)
