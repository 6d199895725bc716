"""Library: the Python interface to playbooks. Any number of processes may open one database."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import Connection, Engine

from memory.content import TITLE_LIMIT, content_of, parse_content, slugify, validate_content
from memory.database import open_database, read_transaction, write_transaction
from memory.entries import earlier_content, history
from memory.playbooks import executions, search, store, upkeep, write
from memory.playbooks.index import PlaybookIndex
from memory.playbooks.lift import LiftReport, lift_report
from memory.playbooks.write import WriteCheck, add_lessons, no_check, remove_lessons
from memory.types import (
    Embedder,
    EntryVersion,
    Execution,
    GroupedResults,
    GroupThresholds,
    Lesson,
    Playbook,
    PlaybookChanges,
    PlaybookContent,
    PlaybookFilter,
    PlaybookQuery,
    Reflection,
    Retention,
    SearchResult,
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
DEFAULT_THRESHOLDS = GroupThresholds()
DEFAULT_RETENTION = Retention()


@contextmanager
def open_library(
    database: str | Path,
    *,
    index: Path | None,
    embedder: Embedder | None = None,
    chroma_url: str | None = None,
    clock: Clock = lambda: datetime.now(UTC),
) -> Iterator["Library"]:
    """Open the library of this database, created if missing; `index` is the index's own folder.

    Without a folder, each search compares all vectors in the database: for a single search that is
    quicker than to import Chroma.

    Raises:
        SettingsInvalid, StoreUnavailable, StoreCorrupt, StoreTooNew.
    """
    engine = open_database(database)
    vectors: VectorIndex | None = None
    if embedder is not None and index is not None:
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
    """Stores, searches and rates playbooks. `ref` is an id or a slug in every method."""

    def __init__(self, engine: Engine, index: PlaybookIndex, *, clock: Clock) -> None:
        self.engine = engine
        self.index = index
        self.clock = clock

    def close(self) -> None:
        """Close the database and the vector index."""
        self.index.close()
        self.engine.dispose()

    def create(
        self, content: PlaybookContent, *, source: str = "person", check: WriteCheck = no_check
    ) -> Playbook:
        """Store a new playbook. Two may have the same title; each gets its own slug.

        Raises:
            EntryInvalid: a field is not valid.
        """
        content = validate_content(content)
        with write_transaction(self.engine) as connection:
            check(connection)
            return write.insert_playbook(connection, content, source=source, at=self.clock())

    def get(self, ref: str) -> Playbook:
        """Return the playbook.

        Raises:
            EntryNotFound: there is none.
        """
        with read_transaction(self.engine) as connection:
            return store.get(connection, ref)

    def list(
        self, where: PlaybookFilter = NOT_ARCHIVED, *, limit: int | None = None
    ) -> Sequence[Playbook]:
        """Return playbooks that pass the filter, the latest change first."""
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
        """Change a playbook.

        Raises:
            EntryNotFound, EntryInvalid.
            StaleUpdate: it is not at `expected_version`; by default, the version read here.
        """
        return self._rewrite(ref, changes.apply, expected_version, source, check)

    def undo(
        self,
        ref: str,
        *,
        to: int | None = None,
        expected_version: int | None = None,
        source: str = "person",
    ) -> Playbook:
        """Restore the content of version `to`, or of the previous one, as a new version.

        Raises:
            EntryInvalid: there is no such earlier version.
            StaleUpdate: as for `update`.
        """
        versions = self.history(ref)
        content = earlier_content(f"playbook {ref!r}", versions, to)
        expected = versions[0].version if expected_version is None else expected_version
        return self._rewrite(ref, lambda _: content, expected, source)

    def history(self, ref: str) -> Sequence[EntryVersion[PlaybookContent]]:
        """Return every version, the newest first."""
        with read_transaction(self.engine) as connection:
            return history(connection, store.get(connection, ref).key, parse_content)

    def delete(self, ref: str, *, check: WriteCheck = no_check) -> bool:
        """Delete a playbook with its history and executions; return False if there is none."""
        with write_transaction(self.engine) as connection:
            check(connection)
            return write.delete_playbook(connection, ref)

    def search(self, query: PlaybookQuery) -> Sequence[SearchResult]:
        """Return the best playbooks for a text, best first; none for an empty text."""
        return search.search_playbooks(self.engine, self.index, query)

    def search_with_context(
        self,
        query: PlaybookQuery,
        thresholds: GroupThresholds = DEFAULT_THRESHOLDS,
        *,
        seed: str = "",
    ) -> GroupedResults:
        """Return search results by group, up to `query.limit` in each.

        Three times the limit is searched, without `min_score`, so that failures are found too.
        To these it adds the best that have lessons, which many others could hide.
        With a seed, such as a run's id, failing playbooks are sometimes offered again.
        """
        wide = replace(query, limit=query.limit * 3, min_score=0.0, taught=query.limit)
        results = self.search(wide)
        with read_transaction(self.engine) as connection:
            return search.group_results(connection, query, results, thresholds, seed)

    def record_execution(self, execution: Execution) -> bool:
        """Store an execution and count its outcome; return False if it is already stored.

        Its reflection waits for a person, see `apply_reflection`.

        Raises:
            EntryInvalid: its id or run id has a NUL byte or is too long.
            EntryNotFound: there is no such playbook.
        """
        with write_transaction(self.engine) as connection:
            key = self._key(connection, execution.playbook_id)
            return executions.record_execution(connection, key, execution, self.clock())

    def expire_pending(self) -> int:
        """Make pending executions neutral when their time is over; return how many."""
        with write_transaction(self.engine) as connection:
            return executions.expire_pending(connection, self.clock())

    def list_executions(
        self, ref: str | None = None, *, limit: int | None = None
    ) -> Sequence[Execution]:
        """Return executions of one playbook, or of all, the newest first."""
        with read_transaction(self.engine) as connection:
            return executions.list_executions(connection, self._key(connection, ref), limit=limit)

    def apply_reflection(
        self, ref: str, reflection: Reflection, *, run_id: str | None = None
    ) -> Sequence[str]:
        """Approve a reflection: store its improvements as lessons, and return the new ones.

        From then on prompts of other runs may hold its `what_failed` texts.
        """
        if not reflection.should_update:
            return []
        failures = reflection.what_failed
        return self._add_lessons(
            ref, reflection.improvements, run_id, failures=failures, approved=True
        )

    def add_lessons(
        self, ref: str, texts: Sequence[str], *, run_id: str | None = None
    ) -> Sequence[str]:
        """Store lessons that the playbook does not have, at most three of a run; return them."""
        return self._add_lessons(ref, texts, run_id)

    def forget_lessons(self, ref: str, choose: Callable[[Playbook], Sequence[Lesson]]) -> Playbook:
        """Remove the lessons that `choose` returns of the playbook; return it without them."""
        with write_transaction(self.engine) as connection:
            playbook = store.get(connection, ref)
            chosen = [lesson.id for lesson in choose(playbook)]
            remove_lessons(connection, playbook.key, chosen)
            return store.get(connection, playbook.id)

    def accept_reflection(self, execution: Execution) -> tuple[Playbook, Sequence[str]]:
        """Approve a waiting reflection; return its playbook and the new lessons.

        Improvements that no playbook is about become one, or lessons of one with this title.
        """
        reflection = execution.reflection or Reflection()
        if not executions.asks_for_playbook(execution) and execution.playbook_id is not None:
            added = self.apply_reflection(
                execution.playbook_id, reflection, run_id=execution.run_id
            )
            return self.get(execution.playbook_id), added
        playbook = self._playbook_for(reflection.title or execution.task, execution)
        added = self._add_lessons(
            playbook.id, reflection.improvements, execution.run_id, approved=True
        )
        with write_transaction(self.engine) as connection:
            executions.close_reflection(connection, execution.id, accepted=True)
        return self.get(playbook.id), added

    def refuse_reflection(self, execution: Execution) -> bool:
        """Drop a waiting reflection; return False if it does not wait."""
        with write_transaction(self.engine) as connection:
            return executions.close_reflection(connection, execution.id, accepted=False)

    def waiting_reflections(self, ref: str | None = None) -> Sequence[Execution]:
        """Return executions of one playbook, or of all, whose reflection waits for a person."""
        with read_transaction(self.engine) as connection:
            return executions.waiting_reflections(connection, self._key(connection, ref))

    def prune(
        self, retention: Retention = DEFAULT_RETENTION, *, dry_run: bool = False
    ) -> Sequence[tuple[Playbook, str]]:
        """Archive stale playbooks; return each with the reason. A dry run changes nothing."""
        return upkeep.prune(self.engine, retention, self.clock(), dry_run=dry_run)

    def stats(self) -> upkeep.StoreStats:
        """Return totals over the store."""
        with read_transaction(self.engine) as connection:
            return upkeep.store_stats(connection)

    def lift(self) -> LiftReport:
        """Return whether playbooks help, overall and for each."""
        with read_transaction(self.engine) as connection:
            return lift_report(connection)

    def reindex(self, progress: Progress | None = None) -> None:
        """Rebuild the word and vector indexes, and embed what the model has not embedded."""
        upkeep.reindex(self.engine, self.index, progress)

    def doctor(self, *, repair: bool = False) -> Sequence[upkeep.IndexCheck]:
        """Compare the indexes with the database; `repair` makes them again before."""

        def search_by_text(text: str) -> Sequence[Playbook]:
            return [result.playbook for result in self.search(PlaybookQuery(text=text, limit=5))]

        if repair:
            self.reindex()
        return upkeep.check_indexes(self.engine, self.index, search_by_text)

    def _playbook_for(self, title: str, execution: Execution) -> Playbook:
        title = " ".join(title.split())[:TITLE_LIMIT] or "untitled work"
        with read_transaction(self.engine) as connection:
            found = store.find(connection, slugify(title))
        if found is not None and found.title.lower() == title.lower():
            return found
        source = f"run {execution.run_id}" if execution.run_id else "person"
        return self.create(PlaybookContent(title=title, use_case=execution.task), source=source)

    def _key(self, connection: Connection, ref: str | None) -> int | None:
        return None if ref is None else store.get(connection, ref).key

    def _rewrite(
        self,
        ref: str,
        change: Callable[[PlaybookContent], PlaybookContent],
        expected_version: int | None,
        source: str,
        check: WriteCheck = no_check,
    ) -> Playbook:
        """Store changed content. The next search embeds the passages that changed."""
        before = self.get(ref)
        content = validate_content(change(content_of(before)))
        with write_transaction(self.engine) as connection:
            check(connection)
            return write.update_playbook(
                connection,
                before,
                content,
                source=source,
                at=self.clock(),
                base=expected_version,
            )

    def _add_lessons(
        self,
        ref: str,
        texts: Sequence[str],
        run_id: str | None,
        *,
        failures: Sequence[str] = (),
        approved: bool = False,
    ) -> Sequence[str]:
        at = self.clock()
        with write_transaction(self.engine) as connection:
            key = store.get(connection, ref).key
            result = add_lessons(connection, key, texts, run_id=run_id, at=at, approved=approved)
            executions.mark_reflections_applied(connection, key)
            executions.approve_failures(connection, key, failures)
        return result.added
