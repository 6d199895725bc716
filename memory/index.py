"""Search over words and vectors; both are made from the database and kept up with it.

Each change of a playbook leaves its key in the table `outdated`, in the change's own
transaction. Whoever searches next brings the vectors up to date first. So a process that dies
anywhere loses nothing, and a search sees every change that was made before it, by anyone.
"""

import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple

from sqlalchemy import Connection, Engine, delete, exists, func, insert, select

from contracts.errors import ModelUnavailable
from memory import bm25, stored_vectors
from memory.chroma_door import Entry, VectorsAway, VectorsBroken
from memory.content import embedded_text, storable
from memory.database import alone, reading, writing
from memory.query_vector import query_vector
from memory.tables import outdated, playbook_tags, playbooks
from memory.types import Embedder, Filter, Vector
from memory.vectors import Vectors
from memory.words import query_words

Progress = Callable[[int, int], None]
"""Told how many of how many are done."""

QUERY_LIMIT = 4_000
"""Characters of a query that are read."""

BATCH = 500

_STATE = select(func.max(playbooks.c.key), exists(select(outdated.c.number)))
"""The number of playbooks ever made, None when none is left; whether the vectors lag behind."""

_log = logging.getLogger(__name__)


class Found(NamedTuple):
    """What each arm found, best first: keys with BM25 scores, keys with cosine distances."""

    words: list[tuple[int, float]]
    vectors: list[tuple[int, float]] | None
    """None: this arm could not be asked."""
    most: float
    """The BM25 score of a playbook that says all of the query as strongly as can be."""
    farthest: float
    """No playbook that the vectors left out is nearer than this distance."""
    vector: Vector | None
    """The query's own, for whoever ranks lessons by it."""


class Index:
    """Both arms of the search. Without an embedder only words are searched."""

    def __init__(self, engine: Engine, vectors: Vectors | None, embedder: Embedder | None) -> None:
        self._engine = engine
        self._vectors = vectors
        self._embedder = embedder
        self._warned: set[str] = set()

    @property
    def model(self) -> str | None:
        """The name that vectors are kept under; None without an embedder."""
        return self._embedder.name if self._embedder else None

    def embed(self, texts: Sequence[str]) -> list[Vector] | None:
        """Vectors, or None when there is no embedder or it does not answer: warned of once."""
        if self._embedder is None or not texts:
            return None
        try:
            return list(self._embedder.embed(texts))
        except ModelUnavailable as error:
            self._warn_of_no_answer(error)
            return None

    def find(self, text: str, where: Filter, *, depth: int, max_distance: float) -> Found:
        """Ask both arms for their best; the filter holds in each."""
        text = storable(text[:QUERY_LIMIT].replace("\0", " ")).strip()
        with reading(self._engine) as connection:
            last, is_outdated = connection.execute(_STATE).one()
            spoken, most = bm25.best(
                connection, query_words(text), where, among=last or 0, limit=depth
            )
        # Nothing kept is found without loading a model and Chroma, which takes a second.
        query = self._understood(text) if text and last else None
        near = None
        if query is not None:
            if is_outdated:
                self.refresh()
            near = self._nearest(query, where, depth)
            if not near:
                self._warn_of_another_model()
        close = [pair for pair in near if pair[1] <= max_distance] if near is not None else None
        farthest = close[-1][1] if close and len(close) == depth else max_distance
        return Found(spoken, close, most, farthest, query)

    def refresh(self, progress: Progress | None = None) -> None:
        """Bring the vectors up to date; embeds what has no vector yet, while the model answers."""
        if self._vectors is None:
            return
        try:
            self._refresh(self._vectors, progress)
        except VectorsBroken as error:
            self._warn("broken", f"the vector index is damaged and is made anew: {error}")
            self._rebuild(self._vectors, progress)
        except VectorsAway as error:
            self._warn("away", f"searching by words only: {error}")

    def rebuild(self, progress: Progress | None = None) -> None:
        """Make the vector index anew from the database; embeds what no vector is kept of."""
        if self._vectors is not None:
            self._rebuild(self._vectors, progress)

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

    def _understood(self, text: str) -> Vector | None:
        if self._embedder is None:
            return None
        try:
            return query_vector(self._embedder, text)
        except ModelUnavailable as error:
            self._warn_of_no_answer(error)
            return None

    def _nearest(self, vector: Vector, where: Filter, depth: int) -> list[tuple[int, float]] | None:
        if self._vectors is None:
            return None
        try:
            return self._vectors.nearest(vector, where, depth)
        except VectorsBroken as error:
            self._warn("broken", f"the vector index is damaged and is made anew: {error}")
            self._rebuild(self._vectors, None)
            return self._vectors.nearest(vector, where, depth)
        except VectorsAway as error:
            self._warn("away", f"searching by words only: {error}")
            return None

    def _warn_of_no_answer(self, error: ModelUnavailable) -> None:
        self._warn("embedder", f"searching by words only until it answers: {error}")

    def _warn_of_another_model(self) -> None:
        with reading(self._engine) as connection:
            first = stored_vectors.first_model(connection)
        if first not in {None, self.model}:
            self._warn(
                "model",
                f"the vectors were made by {first!r}, and the model is {self.model!r} now: "
                "searching by words only until `harness memory reindex`",
            )

    def _rebuild(self, vectors: Vectors, progress: Progress | None) -> None:
        with alone(self._engine, "index"):
            vectors.drop()
            with writing(self._engine) as connection:
                connection.execute(delete(outdated))
                everything = select(playbooks.c.key)
                connection.execute(insert(outdated).from_select(["playbook_key"], everything))
        self._refresh(vectors, progress)

    def _refresh(self, vectors: Vectors, progress: Progress | None) -> None:
        done = after = 0
        # One at a time, or an old state that one process read could overwrite a newer one.
        with alone(self._engine, "index"):
            total = self._waiting() if progress is not None else 0
            while batch := self._batch(after):
                after = max(batch)
                waiting = self._write(vectors, sorted(set(batch.values())))
                settled = [number for number, key in batch.items() if key not in waiting]
                with writing(self._engine) as connection:
                    connection.execute(delete(outdated).where(outdated.c.number.in_(settled)))
                done += len(batch)
                if progress is not None:
                    progress(done, max(done, total))

    def _waiting(self) -> int:
        with reading(self._engine) as connection:
            return connection.execute(select(func.count()).select_from(outdated)).scalar_one()

    def _batch(self, after: int) -> dict[int, int]:
        query = select(outdated.c.number, outdated.c.playbook_key)
        query = query.where(outdated.c.number > after).order_by(outdated.c.number).limit(BATCH)
        with reading(self._engine) as connection:
            return {row.number: row.playbook_key for row in connection.execute(query)}

    def _write(self, vectors: Vectors, keys: list[int]) -> set[int]:
        """Write what the database says of these keys; gives those that still have no vector."""
        waiting = self._embed_missing(keys)
        with reading(self._engine) as connection:
            live, archived = _entries(connection, keys, self.model or "")
        known = {entry.key for entry in (*live, *archived)}
        vectors.write(live, archived, [key for key in keys if key not in known])
        return waiting

    def _embed_missing(self, keys: list[int]) -> set[int]:
        with reading(self._engine) as connection:
            missing = stored_vectors.unembedded(connection, self.model or "", keys)
        made = self.embed([item.text for item in missing])
        if made is None:
            return {item.key for item in missing}
        with writing(self._engine) as connection:
            texts = _texts(connection, keys)
            for item, vector in zip(missing, made, strict=True):
                if texts.get(item.key) == item.text:  # else it was changed or removed meanwhile
                    stored_vectors.put(connection, item.key, self.model or "", item.text, vector)
        return set()

    def _warn(self, what: str, message: str) -> None:
        if what not in self._warned:
            self._warned.add(what)
            _log.warning("%s", message)


def _texts(connection: Connection, keys: Sequence[int]) -> dict[int, str]:
    query = select(playbooks.c.key, playbooks.c.title, playbooks.c.use_case)
    rows = connection.execute(query.where(playbooks.c.key.in_(keys)))
    return {row.key: embedded_text(row.title, row.use_case) for row in rows}


def _entries(
    connection: Connection, keys: Sequence[int], model: str
) -> tuple[list[Entry], list[Entry]]:
    kept = stored_vectors.load(connection, keys, model)
    tags: dict[int, list[str]] = {}
    tagged = select(playbook_tags).where(playbook_tags.c.playbook_key.in_(keys))
    for row in connection.execute(tagged):
        tags.setdefault(row.playbook_key, []).append(row.tag)
    live: list[Entry] = []
    archived: list[Entry] = []
    query = select(playbooks.c.key, playbooks.c.category, playbooks.c.status)
    for row in connection.execute(query.where(playbooks.c.key.in_(list(kept)))):
        part = archived if row.status == "archived" else live
        part.append(Entry(row.key, kept[row.key], row.category, tuple(tags.get(row.key, ()))))
    return live, archived
