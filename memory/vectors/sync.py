"""Brings a vector index up to date with the database.

A change of an entry adds its key to `outdated_entries`. The next search gives each such key
a number in `last_changes`, and writes all changes to the index that have a higher number than the
index recorded. Numbers are given on search and not on change, because two transactions can become
visible in another order than they took their numbers in. Notes and examples are embedded here too;
the index holds playbooks only.
"""

from collections.abc import Callable, Sequence

from sqlalchemy import Connection, Engine, Select, Table, delete, exists, func, insert, select

from memory.database import read_transaction, write_transaction
from memory.entries import IS_PLAYBOOK
from memory.indexing import EntryText, searched_texts, texts_with_vector
from memory.tables import (
    entries,
    last_changes,
    lessons,
    outdated_entries,
    playbook_tags,
)
from memory.types import Vector
from memory.vectors import embeddings
from memory.vectors.chroma import IndexEntry
from memory.vectors.vector_index import VectorIndex

Progress = Callable[[int, int], None]
"""Called with the number of finished and of all changes."""

CHANGES_PER_BATCH = 500

TEXTS_PER_REQUEST = 64
"""Texts that the model embeds in one request. Their vectors are stored before the next one."""

_LAST_NUMBER = select(func.max(last_changes.c.number))


class IndexSync:
    """One update of a vector index. Only one may run at a time on a database."""

    def __init__(
        self,
        engine: Engine,
        model: str,
        embed: Callable[[Sequence[str]], list[Vector] | None],
        progress: Progress | None,
    ) -> None:
        self._engine = engine
        self._model = model
        self._embed = embed
        self._progress = progress
        self._done = self._total = 0

    def update(self, index: VectorIndex) -> None:
        """Embed texts that have no vector, while the model answers, and write all new changes."""
        indexed = index.last_change()
        if indexed > self._count(_LAST_NUMBER):
            index.drop(everything=False)  # the database was restored from a backup
            indexed = 0
        self.number_changes()
        self._write_changes(index, indexed)

    def number_changes(self) -> None:
        """Embed texts that have no vector, and give each change the next number.

        Changes of entries that still lack a vector stay queued as well.
        """
        self._total += self._count(select(func.count()).select_from(outdated_entries))
        after = 0
        while batch := self._batch(outdated_entries, after):
            after = max(batch)
            keys = sorted(set(batch.values()))
            lacking = self._embed_missing(keys)
            finished = [number for number, key in batch.items() if key not in lacking]
            with write_transaction(self._engine) as connection:
                last = connection.execute(_LAST_NUMBER).scalar() or 0
                earlier = last_changes.c.entry_key.in_(keys)
                connection.execute(delete(last_changes).where(earlier))
                rows = [{"entry_key": key, "number": n} for n, key in enumerate(keys, last + 1)]
                connection.execute(insert(last_changes), rows)
                queued = outdated_entries.c.number
                connection.execute(delete(outdated_entries).where(queued.in_(finished)))
            self._report(len(batch))

    def _write_changes(self, index: VectorIndex, indexed: int) -> None:
        later = select(func.count()).select_from(last_changes)
        self._total += self._count(later.where(last_changes.c.number > indexed))
        while batch := self._batch(last_changes, indexed):
            indexed = max(batch)
            keys = list(batch.values())
            with read_transaction(self._engine) as connection:
                found = _entries(connection, keys, self._model)
            # A playbook without a vector is removed: its old one is of another text or model.
            index.write(keys, found, indexed)
            self._report(len(batch))

    def _embed_missing(self, keys: list[int]) -> set[int]:
        """Embed these entries where needed; return the keys of those that still lack a vector."""
        with read_transaction(self._engine) as connection:
            missing = embeddings.texts_to_embed(connection, keys)
        lacking: set[int] = set()
        for start in range(0, len(missing), TEXTS_PER_REQUEST):
            batch = missing[start : start + TEXTS_PER_REQUEST]
            vectors = self._embed([item.text for item in batch])
            if vectors is None:
                return lacking | {item.key for item in missing[start:]}
            lacking |= self._store(batch, vectors)
        return lacking

    def _store(self, batch: Sequence[EntryText], vectors: Sequence[Vector]) -> set[int]:
        """Store these vectors; return the keys of entries that another transaction changes."""
        with write_transaction(self._engine) as connection:
            # An entry that another transaction changes is not waited for: it stays queued, and
            # the next search embeds it.
            keys = [item.key for item in batch]
            found = searched_texts(connection, keys, lock=True)
            texts = {one.key: texts_with_vector(one) for one in found}
            for item, vector in zip(batch, vectors, strict=True):
                if item in texts.get(item.key, ()):  # else it was changed meanwhile
                    embeddings.put_vector(connection, item, self._model, vector)
        return {item.key for item in batch if item.key not in texts}

    def _count(self, query: Select[tuple[int]]) -> int:
        with read_transaction(self._engine) as connection:
            return connection.execute(query).scalar() or 0

    def _batch(self, table: Table, after: int) -> dict[int, int]:
        """Return the next playbook keys of a table by their number."""
        query = select(table.c.number, table.c.entry_key).where(table.c.number > after)
        query = query.order_by(table.c.number).limit(CHANGES_PER_BATCH)
        with read_transaction(self._engine) as connection:
            return {row.number: row.entry_key for row in connection.execute(query)}

    def _report(self, number: int) -> None:
        self._done += number
        if self._progress is not None:
            self._progress(self._done, max(self._done, self._total))


def _entries(connection: Connection, keys: Sequence[int], model: str) -> list[IndexEntry]:
    """Return the index entries of those playbooks that have a vector and are not archived."""
    vectors = embeddings.load_vectors(connection, model, keys)
    tags: dict[int, list[str]] = {}
    tagged = select(playbook_tags).where(playbook_tags.c.playbook_key.in_(keys))
    for row in connection.execute(tagged):
        tags.setdefault(row.playbook_key, []).append(row.tag)
    taught = exists().where(lessons.c.playbook_key == entries.c.key).label("taught")
    of_playbooks = (IS_PLAYBOOK, entries.c.key.in_(list(vectors)), entries.c.status != "archived")
    query = select(entries.c.key, entries.c.category, taught).where(*of_playbooks)
    return [
        IndexEntry(row.key, id_, vector, row.category, tuple(tags.get(row.key, ())), row.taught)
        for row in connection.execute(query)
        for id_, vector in vectors[row.key]
    ]
