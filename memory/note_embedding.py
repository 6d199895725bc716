"""The vectors of notes and examples: made when they are kept, or later where the model was away."""

import logging
from collections.abc import Sequence

from sqlalchemy import Connection, Engine

from contracts.errors import ModelUnavailable
from memory import note_vectors
from memory.database import reading
from memory.note_content import searched_text
from memory.note_generation import changing
from memory.note_types import Content, Entry
from memory.types import Embedder, Vector

BATCH = 200
"""Texts embedded at once while a backlog is worked off."""

_log = logging.getLogger(__name__)


class NoteEmbedding:
    """Makes vectors with one model; without any it makes none."""

    def __init__(self, engine: Engine, embedder: Embedder | None) -> None:
        self._engine = engine
        self._embedder = embedder

    def of(self, content: Content) -> Vector | None:
        """The vector of what it is found by; None when there is nobody who could make it."""
        made = self._embed([searched_text(content)])
        return made[0] if made else None

    def keep(self, connection: Connection, entry: Entry, made: Vector | None) -> None:
        """Put this vector in the place of an entry's last; what is revoked has none."""
        note_vectors.forget(connection, entry.key)
        if made is not None and self._embedder is not None and entry.status != "Revoked":
            note_vectors.put(connection, entry.key, self._embedder.name, made)

    def make_missing(self) -> int:
        """Make the vectors that are missing: the model was away, or it is another one now.

        Not for the request path. Gives how many were made; stops when the model does not answer.
        """
        done = 0
        while self._embedder is not None:
            with reading(self._engine) as connection:
                batch = note_vectors.waiting(connection, self._embedder.name, BATCH)
            vectors = self._embed([item.text for item in batch])
            if not vectors:
                break
            with changing(self._engine) as connection:
                now = note_vectors.texts(connection, [item.key for item in batch])
                for item, vector in zip(batch, vectors, strict=True):
                    if now.get(item.key) == item.text:  # else it was changed meanwhile
                        note_vectors.put(connection, item.key, self._embedder.name, vector)
            done += len(batch)
        return done

    def _embed(self, texts: Sequence[str]) -> Sequence[Vector] | None:
        if self._embedder is None or not texts:
            return None
        try:
            return list(self._embedder.embed(texts))
        except ModelUnavailable as error:
            _log.warning("notes get their vectors later: %s", error)
            return None
