"""The notebook: notes and examples, and what agents are given of them.

All access goes through `Notebook`. Any number of threads and processes may use one database.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, TypedDict, Unpack, overload

from sqlalchemy import Engine, delete

from memory.database import open_database, read_transaction
from memory.entries import stale_update
from memory.errors import EntryInvalid
from memory.notes import search, store
from memory.notes.agent_settings import (
    AgentSettings,
    InjectionOptions,
    check_agent,
    read_settings,
    save_settings,
)
from memory.notes.content import C, check_agent_may_write, check_content, check_run_id
from memory.notes.injection import Injection, inject
from memory.notes.run_history import RunHistory
from memory.notes.store import PERSON, NoteTypes, notebook_transaction
from memory.notes.types import (
    Author,
    Entry,
    EntryContent,
    EntryFilter,
    EntryKind,
    Example,
    ExampleContent,
    Note,
    NoteContent,
    ReviewFlag,
)
from memory.playbooks.index import PlaybookIndex
from memory.scope import Scope, validate_scope
from memory.tables import entries
from memory.types import Embedder, EntryVersion

Clock = Callable[[], datetime]

NO_FILTER = EntryFilter()


@contextmanager
def open_notebook(
    database: str | Path,
    *,
    agents: Collection[str],
    embedder: Embedder | None = None,
    clock: Clock = lambda: datetime.now(UTC),
) -> Iterator["Notebook"]:
    """Yield the notebook of a database, which is created if missing. `agents` are known names.

    Raises:
        SettingsInvalid, StoreUnavailable, StoreCorrupt, StoreTooNew.
    """
    engine = open_database(database)
    try:
        yield Notebook(engine, agents=agents, embedder=embedder, clock=clock)
    finally:
        engine.dispose()


class _EntryInfo(TypedDict, total=False):
    """Optional facts about a new entry."""

    author: Author
    source_run: str | None
    confidence: int | None
    flags: Sequence[ReviewFlag]
    evidence: str


class Notebook:
    """Stores notes, examples and the settings of agents; decides what each agent is given.

    A `ref` is an id or its first characters. Other parts: the note `types`, the history of
    `runs`, and the `index` that embeds what was changed.
    """

    def __init__(
        self, engine: Engine, *, agents: Collection[str], embedder: Embedder | None, clock: Clock
    ) -> None:
        self.engine = engine
        self.agents = tuple(sorted(agents))
        self.embedder = embedder
        self.clock = clock
        self.types = NoteTypes(engine)
        self.runs = RunHistory(engine, clock)
        self.index = PlaybookIndex(engine, None, embedder)

    @overload
    def add(self, content: NoteContent, **info: Unpack[_EntryInfo]) -> Note: ...
    @overload
    def add(self, content: ExampleContent, **info: Unpack[_EntryInfo]) -> Example: ...
    @overload
    def add(self, content: EntryContent, **info: Unpack[_EntryInfo]) -> Entry: ...
    def add(self, content: EntryContent, **info: Unpack[_EntryInfo]) -> Entry:
        """Store a new note or example. Unless its author is a person, it is Pending and Normal.

        Raises:
            EntryInvalid: it or its run is not valid, or an agent wrote a note that instructs.
            AgentUnknown: its scope names an unknown agent.
        """
        content = self._checked(content)
        check_run_id(info.get("source_run"))
        author = info.setdefault("author", PERSON)
        if author.kind != "person":
            content = replace(content, status="Pending", protection="Normal")
        if author.kind == "agent":
            check_agent_may_write(content)
        with notebook_transaction(self.engine) as connection:
            return store.insert_note(connection, content, at=self.clock(), **info)

    @overload
    def get(self, ref: str, kind: Literal["note"]) -> Note: ...
    @overload
    def get(self, ref: str, kind: Literal["example"]) -> Example: ...
    @overload
    def get(self, ref: str, kind: EntryKind | None = None) -> Entry: ...
    def get(self, ref: str, kind: EntryKind | None = None) -> Entry:
        """Return the note or example.

        Raises:
            EntryNotFound: there is none of that kind.
        """
        with read_transaction(self.engine) as connection:
            return store.get_entry(connection, ref, kind)

    @overload
    def list(self, kind: Literal["note"], where: EntryFilter = NO_FILTER) -> Sequence[Note]: ...
    @overload
    def list(
        self, kind: Literal["example"], where: EntryFilter = NO_FILTER
    ) -> Sequence[Example]: ...
    @overload
    def list(self, kind: EntryKind, where: EntryFilter = NO_FILTER) -> Sequence[Entry]: ...
    def list(self, kind: EntryKind, where: EntryFilter = NO_FILTER) -> Sequence[Entry]:
        """Return the notes or examples that match the filter, in its order."""
        with read_transaction(self.engine) as connection:
            return search.list_entries(connection, kind, where)

    def count(self, kind: EntryKind, where: EntryFilter = NO_FILTER) -> int:
        """Return how many entries match the filter, ignoring its limit."""
        with read_transaction(self.engine) as connection:
            return search.count_entries(connection, kind, where)

    @overload
    def edit(self, wanted: Note, *, author: Author = PERSON) -> Note: ...
    @overload
    def edit(self, wanted: Example, *, author: Author = PERSON) -> Example: ...
    def edit(self, wanted: Entry, *, author: Author = PERSON) -> Entry:
        """Store a changed entry as a new version: `edit(replace(entry, text="…"))`.

        Raises:
            EntryInvalid, EntryNotFound, AgentUnknown. EntryInvalid too if the author is an agent,
                or is not a person and the entry would be Active: only people decide what agents
                are given.
            StaleUpdate: the entry was changed after `wanted` was read.
        """
        wanted = self._checked(wanted)
        if author.kind == "agent":
            raise EntryInvalid("an agent cannot change notes or examples: it may write a new note")
        if author.kind != "person" and wanted.status == "Active":
            raise EntryInvalid("only a person makes a note or an example Active, or changes one")
        with notebook_transaction(self.engine) as connection:
            before = store.get_entry(connection, wanted.id)
            entry = store.update_note(connection, wanted, author=author, at=self.clock())
            if entry.status != before.status and entry.status == "Revoked":
                store.delete_flags_about(connection, entry)
            elif entry.status != before.status and entry.status == "Active":
                store.put_flags(connection, entry, ())
                entry = replace(entry, flags=())
        return entry

    def undo(self, ref: str, *, seen: int | None = None, author: Author = PERSON) -> Entry:
        """Restore the content before the last change, as a new version.

        Raises:
            EntryInvalid: it was never changed.
            StaleUpdate: its version is not `seen`.
        """
        with read_transaction(self.engine) as connection:
            entry = store.get_entry(connection, ref)
            content = store.previous_content(connection, entry)
        version = entry.version if seen is None else seen
        return self.edit(replace(entry, **vars(content), version=version), author=author)

    def approve(self, ref: str, *, author: Author = PERSON) -> Entry:
        """Make an entry Active and clear its review flags.

        Raises:
            EntryInvalid: the author is not a person.
        """
        entry = self.get(ref)
        if entry.status != "Active":
            return self.edit(replace(entry, status="Active"), author=author)
        if entry.flags and author.kind == "person":
            with notebook_transaction(self.engine) as connection:
                store.put_flags(connection, entry, ())
            return replace(entry, flags=())
        return entry

    def revoke(self, ref: str, *, author: Author = PERSON) -> Entry:
        """Make an entry Revoked: agents are no longer given it, and its history stays.

        Raises:
            EntryInvalid: it is Protected, and the author is not a person.
        """
        entry = self.get(ref)
        if entry.protection == "Protected" and author.kind != "person":
            raise EntryInvalid(f"{entry.id} is Protected: only a person can revoke it")
        if entry.status == "Revoked":
            return entry
        return self.edit(replace(entry, status="Revoked"), author=author)

    def remove(self, ref: str, *, seen: int | None = None) -> Entry:
        """Delete an entry with its history, and return it.

        Raises:
            EntryNotFound: there is none.
            StaleUpdate: its version is not `seen`.
        """
        with notebook_transaction(self.engine) as connection:
            entry = store.get_entry(connection, ref)
            if seen not in (None, entry.version):
                raise stale_update(entry.id, seen or 0, entry.version)
            connection.execute(delete(entries).where(entries.c.key == entry.key))
            store.delete_flags_about(connection, entry)
        return entry

    def history(self, ref: str) -> Sequence[EntryVersion[EntryContent]]:
        """Return every version, the newest first."""
        with read_transaction(self.engine) as connection:
            return store.note_history(connection, store.get_entry(connection, ref).key)

    def add_flag(self, ref: str, flag: ReviewFlag) -> None:
        """Add a review flag to an entry. This makes no new version."""
        with notebook_transaction(self.engine) as connection:
            entry = store.get_entry(connection, ref)
            store.put_flags(connection, entry, tuple(dict.fromkeys((*entry.flags, flag))))

    def agent_settings(self, name: str) -> AgentSettings:
        """Return an agent's settings.

        Raises:
            AgentUnknown: there is no such agent.
        """
        check_agent(name, self.agents)
        with read_transaction(self.engine) as connection:
            return read_settings(connection, name)

    def save_agent_settings(self, wanted: AgentSettings) -> AgentSettings:
        """Store changed settings: `save_agent_settings(replace(settings, max_notes=3))`.

        Raises:
            AgentUnknown, EntryInvalid.
            StaleUpdate: the settings were changed after `wanted` was read.
        """
        check_agent(wanted.agent, self.agents)
        with notebook_transaction(self.engine) as connection:
            return save_settings(connection, wanted, self.clock())

    def inject(
        self, viewer: Scope, task: str, *, options: InjectionOptions | None = None
    ) -> Injection:
        """Return what the viewer's agent is given for a task, under `options` or its settings.

        An empty id of the viewer is unknown: entries that name this id are not visible.

        Raises:
            AgentUnknown: the viewer names an unknown agent.
            EntryInvalid: one of the viewer's ids is not valid.
        """
        viewer = validate_scope(viewer)
        if viewer.agent is not None:
            check_agent(viewer.agent, self.agents)
        self.index.embed_changes()
        return inject(
            self.engine,
            self.embedder,
            viewer=viewer,
            task=task,
            options=options,
            at=self.clock(),
        )

    def _checked(self, content: C) -> C:
        checked = check_content(content)
        if checked.scope.agent is not None:
            check_agent(checked.scope.agent, self.agents)
        return checked
