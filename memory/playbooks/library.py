"""Playbooks: the one door. Every process may open it; nothing is remembered between calls."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import Engine

from memory.database import open_database, read_transaction, write_transaction
from memory.errors import PlaybookInvalid
from memory.playbooks import doctor, journal, search, store, upkeep
from memory.playbooks import write as writes
from memory.playbooks.changes import PlaybookChanges
from memory.playbooks.index import PlaybookIndex
from memory.playbooks.lesson_vectors import embed_lessons
from memory.playbooks.lessons import add_lessons
from memory.playbooks.lift_report import LiftReport, lift_report
from memory.playbooks.write import Write, WriteCheck, no_check
from memory.stale import Retention
from memory.types import (
    Embedder,
    Execution,
    GroupedResults,
    GroupThresholds,
    Playbook,
    PlaybookContent,
    PlaybookFilter,
    PlaybookQuery,
    PlaybookVersion,
    Reflection,
    SearchResult,
    StoreStats,
)
from memory.vectors.sync import Progress
from memory.vectors.vector_index import (
    FolderVectorIndex,
    ServedVectorIndex,
    VectorIndex,
    index_name,
)

Clock = Callable[[], datetime]

NOT_ARCHIVED = PlaybookFilter()
"""All playbooks that are not archived."""

DEFAULT_CONTRAST = GroupThresholds()
DEFAULT_RETENTION = Retention()


@contextmanager
def open_library(
    database: str | Path,
    *,
    index: Path,
    embedder: Embedder | None = None,
    chroma_url: str | None = None,
    clock: Clock = lambda: datetime.now(UTC),
) -> Iterator["Library"]:
    """A library on this database, made when it is not there; `index` is a folder of its own.

    Raises:
        SettingsInvalid, StoreUnavailable, StoreCorrupt, StoreTooNew.
    """
    engine = open_database(database)
    vectors: VectorIndex | None = None
    if embedder is not None:
        name = index_name(engine, embedder.name, served=chroma_url is not None)
        vectors = (
            ServedVectorIndex(chroma_url, name) if chroma_url else FolderVectorIndex(index, name)
        )
    library = Library(engine, PlaybookIndex(engine, vectors, embedder), clock=clock)
    try:
        yield library
    finally:
        library.close()


class Library:
    """Creates, finds, changes and judges playbooks. `ref` is an id or a slug everywhere."""

    def __init__(self, engine: Engine, index: PlaybookIndex, *, clock: Clock) -> None:
        self.engine = engine
        self.index = index
        self.clock = clock

    def close(self) -> None:
        """Let go of the database and the index."""
        self.index.close()
        self.engine.dispose()

    def create(
        self, content: PlaybookContent, *, source: str = "person", check: WriteCheck = no_check
    ) -> Playbook:
        """Keep a new playbook; two may have the same title, never the same slug.

        Raises:
            PlaybookInvalid: what is wrong with it.
        """
        return writes.create(self.engine, self.index, content, self._write(source, check))

    def get(self, ref: str) -> Playbook:
        """The playbook.

        Raises:
            PlaybookNotFound: there is none.
        """
        with read_transaction(self.engine) as connection:
            return store.get(connection, ref)

    def list(
        self, where: PlaybookFilter = NOT_ARCHIVED, *, limit: int | None = None
    ) -> Sequence[Playbook]:
        """Playbooks that pass the filter, the newest change first."""
        with read_transaction(self.engine) as connection:
            return store.list_all(connection, where, limit=limit)

    def update(
        self,
        ref: str,
        changes: PlaybookChanges,
        *,
        expected_version: int | None = None,
        source: str = "person",
        check: WriteCheck = no_check,
    ) -> Playbook:
        """Change a playbook. An archived one stays archived unless `changes` says otherwise.

        Raises:
            PlaybookNotFound, PlaybookInvalid.
            StaleUpdate: it is no longer at `expected_version`; by default, at the one read here.
        """
        write = self._write(source, check, expected_version)
        return writes.rewrite(self.engine, self.index, ref, changes.apply, write)

    def undo(
        self,
        ref: str,
        *,
        to: int | None = None,
        expected_version: int | None = None,
        source: str = "person",
    ) -> Playbook:
        """Bring back the content of version `to`, or before the last change, as a new version.

        Raises:
            PlaybookInvalid: it was never changed, or has no such earlier version.
            StaleUpdate: as `update`.
        """
        now, *past = self.history(ref)
        if not past:
            raise PlaybookInvalid(f"playbook {ref!r} was never changed: there is nothing to undo")
        known = {version.version: version.content for version in past}
        content = known.get(past[0].version if to is None else to)
        if content is None:
            told = ", ".join(str(version) for version in sorted(known))
            raise PlaybookInvalid(
                f"playbook {ref!r} is at version {now.version} and has no earlier version {to}. "
                f"Known: {told}"
            )
        seen = now.version if expected_version is None else expected_version
        write = self._write(source, no_check, seen)
        return writes.rewrite(self.engine, self.index, ref, lambda _: content, write)

    def history(self, ref: str) -> Sequence[PlaybookVersion]:
        """Every version, the newest first."""
        with read_transaction(self.engine) as connection:
            return store.history(connection, store.get(connection, ref).key)

    def delete(self, ref: str, *, check: WriteCheck = no_check) -> bool:
        """Forget a playbook and all that belongs to it; False when there is none."""
        with write_transaction(self.engine) as connection:
            check(connection)
            return store.remove(connection, ref)

    def search(self, query: PlaybookQuery) -> Sequence[SearchResult]:
        """The best playbooks for a text, and why each was found; empty for an empty text."""
        return search.search_playbooks(self.engine, self.index, query)

    def search_with_context(
        self, query: PlaybookQuery, contrast: GroupThresholds = DEFAULT_CONTRAST
    ) -> GroupedResults:
        """Search results by their group, up to `query.limit` in each.

        Three times the limit is searched and `min_score` is left out, so that failures show.
        """
        hits = self.search(replace(query, limit=query.limit * 3, min_score=0.0))
        with read_transaction(self.engine) as connection:
            return search.add_failures(
                connection, search.group_results(connection, query, hits, contrast)
            )

    def record_execution(self, execution: Execution) -> bool:
        """Keep an execution and count its outcome; False when it was kept before.

        Where it does not say, its version is the one that the run was shown, else the one of now.
        Its reflection waits for a person, see `apply_reflection`.

        Raises:
            PlaybookInvalid: its id or its run's has a NUL byte or too many characters.
            PlaybookNotFound: it names a playbook that is not there.
        """
        with write_transaction(self.engine) as connection:
            ref = execution.playbook_id
            playbook = store.get(connection, ref) if ref is not None else None
            return journal.record_execution(
                connection, playbook.key if playbook else None, execution, self.clock()
            )

    def expire_pending(self) -> int:
        """Executions whose verdict did not come in time end as neutral; how many."""
        with write_transaction(self.engine) as connection:
            return journal.expire_pending(connection, self.clock())

    def list_executions(
        self, ref: str | None = None, *, limit: int | None = None
    ) -> Sequence[Execution]:
        """Executions of one playbook, or of all, the newest first."""
        with read_transaction(self.engine) as connection:
            key = store.get(connection, ref).key if ref is not None else None
            return journal.list_executions(connection, key, limit=limit)

    def apply_reflection(
        self, ref: str, reflection: Reflection, *, run_id: str | None = None
    ) -> Sequence[str]:
        """Make the improvements lessons of the playbook, three at a time; gives the new ones.

        What it says failed may be told to other runs from now on.
        """
        if not reflection.should_update:
            return []
        failed = reflection.what_failed
        return self._teach(ref, reflection.improvements, run_id, failed=failed, asked=True)

    def add_lessons(
        self, ref: str, texts: Sequence[str], *, run_id: str | None = None
    ) -> Sequence[str]:
        """Add lessons that the playbook does not have yet, three a run at most."""
        return self._teach(ref, texts, run_id)

    def waiting_reflections(self, ref: str | None = None) -> Sequence[Execution]:
        """Executions whose reflection waits for a person, of one playbook or all."""
        with read_transaction(self.engine) as connection:
            key = store.get(connection, ref).key if ref is not None else None
            return journal.waiting_reflections(connection, key)

    def prune(
        self, retention: Retention = DEFAULT_RETENTION, *, dry_run: bool = False
    ) -> Sequence[tuple[Playbook, str]]:
        """Archive what is stale; gives each with the reason. A dry run changes nothing."""
        return upkeep.prune(self.engine, retention, self.clock, dry_run=dry_run)

    def stats(self) -> StoreStats:
        """Totals over the store."""
        with read_transaction(self.engine) as connection:
            return upkeep.store_stats(connection)

    def lift(self) -> LiftReport:
        """Whether memory helps, overall and per playbook."""
        with read_transaction(self.engine) as connection:
            return lift_report(connection)

    def reindex(self, progress: Progress | None = None) -> None:
        """Make words and vectors anew; embeds only what no vector of the model is kept of."""
        upkeep.reindex(self.engine, self.index, progress)

    def doctor(self, *, repair: bool = False) -> Sequence[doctor.IndexCheck]:
        """Whether the indexes tell what the database holds; `repair` makes anew what does not."""
        return doctor.check_indexes(self.engine, self.index, self._finds, repair=repair)

    def _finds(self, text: str) -> Sequence[Playbook]:
        return [hit.playbook for hit in self.search(PlaybookQuery(text=text, limit=5))]

    def _write(self, source: str, check: WriteCheck, expected: int | None = None) -> Write:
        return Write(source=source, clock=self.clock, check=check, expected=expected)

    def _teach(
        self,
        ref: str,
        texts: Sequence[str],
        run_id: str | None,
        *,
        failed: Sequence[str] = (),
        asked: bool = False,
    ) -> Sequence[str]:
        at = self.clock()
        with write_transaction(self.engine) as connection:
            key = store.get(connection, ref).key
            taught = add_lessons(connection, key, texts, run_id=run_id, at=at, asked=asked)
            journal.mark_reflections_applied(connection, key)
            journal.approve_failures(connection, key, failed)
        embed_lessons(self.engine, self.index, ref)
        return taught.added
