"""Embeddings of notes and examples, computed on save or later, and near duplicates by them."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, Engine, delete, select

from contracts.errors import ModelUnavailable
from memory.database import read_transaction
from memory.notes.content import kind_of, searchable_text
from memory.notes.store import entries_by_key, notebook_transaction
from memory.notes.types import Entry, EntryContent
from memory.scope import Scope
from memory.tables import entries, entry_vectors
from memory.types import Embedder, Vector
from memory.vectors.embeddings import (
    PROBE_TEXT,
    TextToEmbed,
    cosine_distances,
    embed_each,
    put_vector,
)

BATCH = 200
"""Texts per request and transaction while missing embeddings are computed."""

_log = logging.getLogger(__name__)


NEAR_DISTANCE = 0.35
"""Cosine distance below which two entries are near duplicates."""

MAX_NEAR_DUPLICATES = 3


@dataclass(frozen=True)
class NoteEmbedder:
    """Computes and stores embeddings with one model. Without a model it does nothing."""

    engine: Engine
    embedder: Embedder | None

    def vector_for(self, content: EntryContent) -> Vector | None:
        """Return the embedding of the searchable text; None if the model cannot make one now."""
        vectors = self._embed([searchable_text(content)])
        return (vectors[0] or None) if vectors else None

    def vector_for_change(self, wanted: Entry) -> Vector | None:
        """Return the embedding that a changed entry needs; None if the stored one still fits."""
        if self.embedder is None or wanted.status == "Revoked":
            return None
        query = select(entries.c.text).join(entry_vectors).where(entries.c.key == wanted.key)
        with read_transaction(self.engine) as connection:
            of_model = query.where(entry_vectors.c.model == self.embedder.name)
            embedded = connection.execute(of_model).scalar()
        return None if embedded == searchable_text(wanted) else self.vector_for(wanted)

    def save(
        self,
        connection: Connection,
        entry: Entry,
        vector: Vector | None,
        before: Entry | None = None,
    ) -> None:
        """Store the embedding of a saved entry; delete the old one if it no longer applies.

        Without a `vector` the old one stays, unless the entry is revoked or the searchable text
        differs from that of `before`.
        """
        if entry.status == "Revoked":
            _delete(connection, entry.key)
        elif vector is not None and self.embedder is not None:
            put_vector(connection, entry_vectors.c.entry_key, entry.key, self.embedder.name, vector)
        elif before is not None and searchable_text(before) != searchable_text(entry):
            _delete(connection, entry.key)

    def embed_missing(self) -> int:
        """Compute the embeddings that are missing or come from another model; return how many.

        This can take minutes, so it is for upkeep only. It stops when the model does not answer.
        """
        length = self._vector_length()
        if length is None or self.embedder is None:
            return 0
        model, made, last_key = self.embedder.name, 0, 0
        while batch := self._texts_without(model, length, after=last_key):
            vectors = self._embed([item.text for item in batch])
            if vectors is None:
                break
            self._save_batch(batch, vectors, model)
            made, last_key = made + sum(map(bool, vectors)), batch[-1].key
        return made

    def _vector_length(self) -> int | None:
        query = select(entries.c.text).where(entries.c.status != "Revoked")
        with read_transaction(self.engine) as connection:
            first = connection.execute(query.order_by(entries.c.key).limit(1)).scalar()
        vectors = self._embed([first]) if first is not None else None
        if vectors == [()]:  # the model refuses this text; it may take others
            vectors = self._embed([PROBE_TEXT])
        return len(vectors[0]) if vectors else None

    def _texts_without(self, model: str, length: int, *, after: int) -> list[TextToEmbed]:
        embedded = select(entry_vectors.c.entry_key)
        embedded = embedded.where(
            entry_vectors.c.model == model, entry_vectors.c.dimensions == length
        )
        query = select(entries.c.key, entries.c.text).where(
            entries.c.status != "Revoked", entries.c.key > after, entries.c.key.not_in(embedded)
        )
        with read_transaction(self.engine) as connection:
            rows = connection.execute(query.order_by(entries.c.key).limit(BATCH))
            return [TextToEmbed(row.key, row.text) for row in rows]

    def _save_batch(
        self, batch: Sequence[TextToEmbed], vectors: Sequence[Vector], model: str
    ) -> None:
        query = select(entries.c.key, entries.c.text).where(
            entries.c.key.in_([item.key for item in batch]), entries.c.status != "Revoked"
        )
        with notebook_transaction(self.engine) as connection:
            texts = {row.key: row.text for row in connection.execute(query)}
            for item, vector in zip(batch, vectors, strict=True):
                if vector and texts.get(item.key) == item.text:  # else it was changed meanwhile
                    put_vector(connection, entry_vectors.c.entry_key, item.key, model, vector)

    def _embed(self, texts: Sequence[str]) -> Sequence[Vector] | None:
        if self.embedder is None or not texts:
            return None
        try:
            return embed_each(self.embedder, texts)
        except ModelUnavailable as error:
            _log.warning("notes are embedded later, by upkeep: %s", error)
            return None


def _delete(connection: Connection, key: int) -> None:
    connection.execute(delete(entry_vectors).where(entry_vectors.c.entry_key == key))


class NearDuplicate(NamedTuple):
    """An entry and its cosine distance from the new one."""

    entry: Entry
    distance: float


def find_near_duplicates(
    connection: Connection, content: EntryContent, vector: Vector, model: str
) -> list[NearDuplicate]:
    """Return the nearest entries that one viewer could be given together with `content`.

    Revoked entries, and those without an embedding of this model, are ignored.
    """
    query = (
        select(entries.c.key, entry_vectors.c.vector)
        .join(entry_vectors)
        .where(
            entry_vectors.c.model == model,
            entry_vectors.c.dimensions == len(vector),
            entries.c.kind == kind_of(content),
            entries.c.status != "Revoked",
            *_visible_together(content.scope),
        )
    )
    rows = connection.execute(query).all()
    distances = cosine_distances([row.vector for row in rows], vector)
    near = [
        (distance, row.key)
        for distance, row in zip(distances, rows, strict=True)
        if distance < NEAR_DISTANCE
    ]
    nearest = sorted(near)[:MAX_NEAR_DUPLICATES]
    found = entries_by_key(connection, [key for _, key in nearest])
    return [NearDuplicate(found[key], distance) for distance, key in nearest]


def _visible_together(scope: Scope) -> list[ColumnElement[bool]]:
    """Return conditions for entries whose scope is equal, wider or narrower."""
    named = {entries.c.agent: scope.agent, entries.c.user_id: scope.user}
    named[entries.c.company] = scope.company
    return [
        column.is_(None) | (column == name) for column, name in named.items() if name is not None
    ]
