"""The vectors of notes and examples: made when they are kept, or later where the model was away."""

import logging
from collections.abc import Sequence

from sqlalchemy import Connection, Engine

from contracts.errors import ModelUnavailable
from memory.database import read_transaction
from memory.notes import vectors as note_vectors
from memory.notes.content import searchable_text
from memory.notes.generation import notebook_transaction
from memory.notes.types import Entry, EntryContent
from memory.notes.vectors import Made
from memory.types import Embedder, Vector
from memory.vectors.embedding import PROBE_TEXT, embed_each
from memory.vectors.stored_vectors import TextToEmbed

BATCH = 200
"""Texts embedded at once while a backlog is worked off."""

_log = logging.getLogger(__name__)


class NoteEmbedder:
    """Makes vectors with one model; without any it makes none."""

    def __init__(self, engine: Engine, embedder: Embedder | None) -> None:
        self._engine = engine
        self._embedder = embedder

    def vector_for(self, content: EntryContent) -> Vector | None:
        """The vector of what it is found by; None when there is nobody who could make it."""
        made = self._embed([searchable_text(content)])
        return (made[0] or None) if made else None

    def vector_for_change(self, wanted: Entry) -> Vector | None:
        """The vector that a changed entry needs; None too when the one it has is of its text."""
        if self._embedder is None or wanted.status == "Revoked":
            return None
        with read_transaction(self._engine) as connection:
            held = note_vectors.text_of(connection, wanted.key, self._embedder.name)
        return None if held == searchable_text(wanted) else self.vector_for(wanted)

    def save(
        self, connection: Connection, entry: Entry, made: Vector | None, before: Entry | None = None
    ) -> None:
        """Put this vector in the place of the entry's last; what is revoked has none.

        Without a vector the last one stays, as long as the text is that of `before`.
        """
        if entry.status == "Revoked":
            note_vectors.forget(connection, entry.key)
        elif made is not None and self._embedder is not None:
            note_vectors.put(connection, entry.key, self._embedder.name, made)
        elif before is not None and searchable_text(before) != searchable_text(entry):
            note_vectors.forget(connection, entry.key)

    def embed_missing(self) -> int:
        """Make the vectors that are missing: the model was away, or is another one or as another.

        Not for the request path. Gives how many were made; stops when the model does not answer.
        """
        with read_transaction(self._engine) as connection:
            first = note_vectors.first_text(connection)
        now = self._embed([first]) if first is not None else None
        if now == [()]:
            now = self._embed([PROBE_TEXT])
        if not now or self._embedder is None:
            return 0
        done, last, made_by = 0, 0, Made(self._embedder.name, len(now[0]))
        while True:
            with read_transaction(self._engine) as connection:
                batch = note_vectors.waiting(connection, made_by, after=last, limit=BATCH)
            vectors = self._embed([item.text for item in batch])
            if not vectors:
                return done
            self._put(batch, vectors, made_by.model)
            done, last = done + sum(map(bool, vectors)), batch[-1].key

    def _put(self, batch: Sequence[TextToEmbed], vectors: Sequence[Vector], model: str) -> None:
        with notebook_transaction(self._engine) as connection:
            now = note_vectors.texts(connection, [item.key for item in batch])
            for item, vector in zip(batch, vectors, strict=True):
                if vector and now.get(item.key) == item.text:  # else it was changed meanwhile
                    note_vectors.put(connection, item.key, model, vector)

    def _embed(self, texts: Sequence[str]) -> Sequence[Vector] | None:
        if self._embedder is None or not texts:
            return None
        try:
            return embed_each(self._embedder, texts)
        except ModelUnavailable as error:
            _log.warning("notes get their vectors later: %s", error)
            return None
