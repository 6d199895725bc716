"""Brings a vector index up to date with the database."""

from collections.abc import Callable, Sequence

from sqlalchemy import Connection, Engine, Select, Table, bindparam, delete, func, insert, select

from memory.content import embedding_text
from memory.database import read_transaction, write_transaction
from memory.tables import last_changes, outdated_playbooks, playbook_tags, playbooks
from memory.types import Vector
from memory.vectors import stored_vectors
from memory.vectors.chroma import IndexEntry
from memory.vectors.stored_vectors import TextToEmbed
from memory.vectors.vector_index import IndexUpdate, VectorIndex

Progress = Callable[[int, int], None]
"""Told how many of how many are done."""

CHANGES_PER_BATCH = 500

TEXTS_PER_REQUEST = 64
"""Texts that are embedded at once, and their vectors kept before more are asked for."""


def _numbered(table: Table) -> Select[tuple[int, int]]:
    number = table.c.number
    query = select(number, table.c.playbook_key).where(number > bindparam("after"))
    return query.order_by(number).limit(bindparam("most"))


_OUTDATED, _NUMBERED = _numbered(outdated_playbooks), _numbered(last_changes)
_LAST_NUMBER = select(func.max(last_changes.c.number))


class IndexSync:
    """One pass; only one at a time may work on a database."""

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

    def update(self, into: VectorIndex) -> None:
        """Embed what has no vector yet, while the model answers, and write all that is new."""
        seen = into.last_change()
        if seen > self._count(_LAST_NUMBER):
            into.drop(damaged=False)  # it is ahead: the database was put back to an older state
            seen = 0
        self._number_changes()
        self._catch_up(into, seen)

    def _number_changes(self) -> None:
        """Embed what has no vector and give each change the next number.

        Those that still have no vector are numbered, and stay in `outdated` for the next time.
        """
        self._total += self._count(select(func.count()).select_from(outdated_playbooks))
        after = 0
        while batch := self._batch(_OUTDATED, after):
            after = max(batch)
            keys = sorted(set(batch.values()))
            waiting = self._embed_missing(keys)
            settled = [number for number, key in batch.items() if key not in waiting]
            with write_transaction(self._engine) as connection:
                last = connection.execute(_LAST_NUMBER).scalar() or 0
                connection.execute(
                    delete(last_changes).where(last_changes.c.playbook_key.in_(keys))
                )
                rows = [{"playbook_key": key, "number": n} for n, key in enumerate(keys, last + 1)]
                connection.execute(insert(last_changes), rows)
                connection.execute(
                    delete(outdated_playbooks).where(outdated_playbooks.c.number.in_(settled))
                )
            self._did(len(batch))

    def _catch_up(self, into: VectorIndex, seen: int) -> None:
        """Write every change after the last that this index has seen."""
        lacking = select(func.count()).select_from(last_changes)
        self._total += self._count(lacking.where(last_changes.c.number > seen))
        while batch := self._batch(_NUMBERED, seen):
            seen = max(batch)
            keys = list(batch.values())
            with read_transaction(self._engine) as connection:
                live, archived = _entries(connection, keys, self._model)
            known = {entry.key for entry in (*live, *archived)}
            gone = [key for key in keys if key not in known]
            into.write(IndexUpdate(live, archived, gone, seen))
            self._did(len(batch))

    def _embed_missing(self, keys: list[int]) -> set[int]:
        with read_transaction(self._engine) as connection:
            missing = stored_vectors.texts_to_embed(connection, keys)
        waiting: set[int] = set()
        for start in range(0, len(missing), TEXTS_PER_REQUEST):
            part = missing[start : start + TEXTS_PER_REQUEST]
            made = self._embed([item.text for item in part])
            if made is None:
                return waiting | {item.key for item in missing[start:]}
            waiting |= self._keep(part, made)
        return waiting

    def _keep(self, part: Sequence[TextToEmbed], made: Sequence[Vector]) -> set[int]:
        """Keep these vectors; gives those of playbooks that are being changed just now."""
        with write_transaction(self._engine) as connection:
            texts = _held(connection, [item.key for item in part])
            for item, vector in zip(part, made, strict=True):
                if texts.get(item.key) == item.text:  # else it was changed or removed meanwhile
                    stored_vectors.put_vector(connection, item.key, self._model, item.text, vector)
        return {item.key for item in part if item.key not in texts}

    def _count(self, query: Select[tuple[int]]) -> int:
        with read_transaction(self._engine) as connection:
            return connection.execute(query).scalar() or 0

    def _batch(self, query: Select[tuple[int, int]], after: int) -> dict[int, int]:
        with read_transaction(self._engine) as connection:
            rows = connection.execute(query, {"after": after, "most": CHANGES_PER_BATCH})
            return {row[0]: row[1] for row in rows}

    def _did(self, number: int) -> None:
        self._done += number
        if self._progress is not None:
            self._progress(self._done, max(self._done, self._total))


def _held(connection: Connection, keys: Sequence[int]) -> dict[int, str]:
    """The texts, which nobody changes before the transaction ends; those under change left out."""
    query = select(playbooks.c.key, playbooks.c.title, playbooks.c.use_case)
    held = query.where(playbooks.c.key.in_(keys)).with_for_update(key_share=True, skip_locked=True)
    rows = connection.execute(held)
    return {row.key: embedding_text(row.title, row.use_case) for row in rows}


def _entries(
    connection: Connection, keys: Sequence[int], model: str
) -> tuple[list[IndexEntry], list[IndexEntry]]:
    kept = stored_vectors.load_vectors(connection, keys, model)
    tags: dict[int, list[str]] = {}
    tagged = select(playbook_tags).where(playbook_tags.c.playbook_key.in_(keys))
    for row in connection.execute(tagged):
        tags.setdefault(row.playbook_key, []).append(row.tag)
    live: list[IndexEntry] = []
    archived: list[IndexEntry] = []
    query = select(playbooks.c.key, playbooks.c.category, playbooks.c.status)
    for row in connection.execute(query.where(playbooks.c.key.in_(list(kept)))):
        part = archived if row.status == "archived" else live
        part.append(IndexEntry(row.key, kept[row.key], row.category, tuple(tags.get(row.key, ()))))
    return live, archived
