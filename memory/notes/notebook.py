"""Notes and examples: the one door. Every process may open it at the same time."""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, TypedDict, Unpack, overload

from sqlalchemy import Engine

from memory import scope
from memory.database import open_database, read_transaction
from memory.errors import NoteInvalid
from memory.notes import agent_settings, listing, near_duplicates, search, store
from memory.notes import content as note_content
from memory.notes import flags as note_flags
from memory.notes.agent_settings import AgentSettings, InjectionOptions
from memory.notes.embedding import NoteEmbedder
from memory.notes.generation import notebook_transaction
from memory.notes.injection import Injection, InjectionRequest, Injector
from memory.notes.near_duplicates import NearDuplicate
from memory.notes.run_history import RunHistory
from memory.notes.store import PERSON
from memory.notes.type_book import NoteTypes
from memory.notes.types import (
    Author,
    Entry,
    EntryContent,
    EntryFilter,
    EntryKind,
    EntryStatus,
    EntryVersion,
    Example,
    ExampleContent,
    Note,
    NoteContent,
    ReviewFlag,
)
from memory.scope import Scope
from memory.types import Embedder

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
    """The notebook in this database, made when it is not there; `agents` are the known ones.

    Raises:
        SettingsInvalid, StoreUnavailable, StoreCorrupt, StoreTooNew.
    """
    engine = open_database(database)
    try:
        yield Notebook(engine, agents=agents, embedder=embedder, clock=clock)
    finally:
        engine.dispose()


class _Known(TypedDict, total=False):
    """What may be known of a new entry besides its content."""

    author: Author
    source_run: str | None
    confidence: int | None
    flags: Sequence[ReviewFlag]


class Notebook:
    """Keeps notes and examples, and what each agent is given of them.

    `ref` is an id, or the beginning of one. Threads may share it. Beside it stand the note
    `types`, what it knows of `runs`, and the `vectors` that notes are found by.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        agents: Collection[str],
        embedder: Embedder | None,
        clock: Clock,
    ) -> None:
        self.engine = engine
        self.agents = tuple(sorted(agents))
        self.embedder = embedder
        self.clock = clock
        self.types = NoteTypes(engine)
        self.runs = RunHistory(engine, clock)
        self.embeddings = NoteEmbedder(engine, embedder)
        self._injector = Injector(engine, embedder, clock)

    @overload
    def add(self, content: NoteContent, **known: Unpack[_Known]) -> Note: ...
    @overload
    def add(self, content: ExampleContent, **known: Unpack[_Known]) -> Example: ...
    @overload
    def add(self, content: EntryContent, **known: Unpack[_Known]) -> Entry: ...
    def add(self, content: EntryContent, **known: Unpack[_Known]) -> Entry:
        """Keep a new note or example; one that no person wrote is Pending, whatever it asks for.

        Raises:
            NoteInvalid: what is wrong with it or its run; or an agent tells others what to do.
            AgentUnknown: its scope names an agent that there is not.
        """
        content = self._checked(content)
        note_content.check_run_id(known.get("source_run"))
        author = known.setdefault("author", PERSON)
        if author.kind != "person":
            content = replace(content, status="Pending", protection="Normal")
        if author.kind == "agent":
            note_content.check_agent_may_write(content)
        made = self.embeddings.vector_for(content)
        with notebook_transaction(self.engine) as connection:
            entry = store.insert_entry(connection, content, at=self.clock(), **known)
            self.embeddings.save(connection, entry, made)
        return entry

    @overload
    def get(self, ref: str, kind: Literal["note"]) -> Note: ...
    @overload
    def get(self, ref: str, kind: Literal["example"]) -> Example: ...
    @overload
    def get(self, ref: str, kind: EntryKind | None = None) -> Entry: ...
    def get(self, ref: str, kind: EntryKind | None = None) -> Entry:
        """The note or example.

        Raises:
            NoteNotFound: there is none of that kind.
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
        """Notes or examples that pass the filter, in its order."""
        with read_transaction(self.engine) as connection:
            return listing.list_entries(connection, kind, where)

    def count(self, kind: EntryKind, where: EntryFilter = NO_FILTER) -> int:
        """How many pass the filter, whatever its limit."""
        with read_transaction(self.engine) as connection:
            return listing.count_entries(connection, kind, where)

    @overload
    def edit(self, wanted: Note, *, author: Author = PERSON) -> Note: ...
    @overload
    def edit(self, wanted: Example, *, author: Author = PERSON) -> Example: ...
    def edit(self, wanted: Entry, *, author: Author = PERSON) -> Entry:
        """Make an entry what `wanted` says: `edit(replace(entry, text="…"))`.

        Raises:
            NoteInvalid, NoteNotFound, AgentUnknown; NoteInvalid also where it would be Active and
                its author is no person: only a person decides what agents are given.
            StaleUpdate: it is no longer at the version that `wanted` was read at.
        """
        wanted = self._checked(wanted)
        if author.kind == "agent":
            raise NoteInvalid("an agent cannot change what is kept: it may write a new note")
        if author.kind != "person" and wanted.status == "Active":
            raise NoteInvalid("only a person makes a note or an example Active, or changes one")
        made = self.embeddings.vector_for_change(wanted)
        with notebook_transaction(self.engine) as connection:
            before = store.get_entry(connection, wanted.id)
            after = store.update_entry(connection, wanted, author=author, at=self.clock())
            self.embeddings.save(connection, after, made, before)
            if after.status != before.status:
                after = note_flags.clear_after_review(connection, after, author)
        return after

    def undo(self, ref: str, *, seen: int | None = None, author: Author = PERSON) -> Entry:
        """Bring back what was there before the last change, as a new version.

        Raises:
            NoteInvalid, StaleUpdate: it was never changed, or is no longer at version `seen`.
        """
        with read_transaction(self.engine) as connection:
            now = store.get_entry(connection, ref)
            before = store.previous_content(connection, now)
        version = now.version if seen is None else seen
        return self.edit(replace(now, **vars(before), version=version), author=author)

    def approve(self, ref: str, *, author: Author = PERSON) -> Entry:
        """Make it Active, for the agents whose scope fits; a person settles its flags by that."""
        return self._set_status(ref, "Active", author)

    def revoke(self, ref: str, *, author: Author = PERSON) -> Entry:
        """Make it Revoked: nobody is given it any more; its history stays.

        Raises:
            NoteInvalid: it is Protected, and it is no person who asks.
        """
        entry = self.get(ref)
        if entry.protection == "Protected" and author.kind != "person":
            raise NoteInvalid(f"{entry.id} is Protected: only a person can revoke it")
        return self._set_status(ref, "Revoked", author)

    def remove(self, ref: str) -> Entry:
        """Forget it for good, with its history; gives what it was.

        Raises:
            NoteNotFound: there is none.
        """
        with notebook_transaction(self.engine) as connection:
            entry = store.get_entry(connection, ref)
            store.delete_entry(connection, entry)
            note_flags.delete_flags_about(connection, entry)
        return entry

    def history(self, ref: str) -> Sequence[EntryVersion]:
        """Every version, the newest first."""
        with read_transaction(self.engine) as connection:
            return store.entry_history(connection, store.get_entry(connection, ref).key)

    def near_duplicates(self, content: EntryContent) -> Sequence[NearDuplicate]:
        """What says nearly the same and could be given together with it; none without a model."""
        made = self.embeddings.vector_for(content)
        if made is None or self.embedder is None:
            return ()
        with read_transaction(self.engine) as connection:
            return near_duplicates.find_near_duplicates(
                connection, content, made, self.embedder.name
            )

    def add_flag(self, ref: str, flag: ReviewFlag) -> None:
        """Have a person see something beside an entry; its content stays as it is."""
        with notebook_transaction(self.engine) as connection:
            entry = store.get_entry(connection, ref)
            note_flags.add_flag(connection, entry, flag)

    def visible_notes(self, viewer: Scope, *, limit: int) -> Sequence[Entry]:
        """The notes that a viewer may be given, in the order of strategy Recent."""
        with read_transaction(self.engine) as connection:
            keys = search.keys_in_order(
                connection, "note", viewer, "Recent", at=self.clock(), limit=limit
            )
            return search.load_in_order(connection, keys)

    def agent_settings(self, name: str) -> AgentSettings:
        """What an agent is given.

        Raises:
            AgentUnknown: no agent has this name.
        """
        agent_settings.check_agent(name, self.agents)
        with read_transaction(self.engine) as connection:
            return agent_settings.read_settings(connection, name)

    def save_agent_settings(self, wanted: AgentSettings) -> AgentSettings:
        """Change what an agent is given: `set_agent(replace(settings, max_notes=3))`.

        Raises:
            AgentUnknown, NoteInvalid.
            StaleUpdate: somebody else changed the settings in between.
        """
        agent_settings.check_agent(wanted.agent, self.agents)
        with notebook_transaction(self.engine) as connection:
            return agent_settings.save_settings(connection, wanted, self.clock())

    def inject(
        self, viewer: Scope, task: str, *, options: InjectionOptions | None = None
    ) -> Injection:
        """What the viewer's agent is given for a task; `options` stand in for the agent's own.

        Empty ids of the viewer are not known, and nothing that needs them is seen.

        Raises:
            AgentUnknown, NoteInvalid: the viewer names an agent that there is not, or odd ids.
        """
        viewer = scope.validate_scope(viewer)
        if viewer.agent is not None:
            agent_settings.check_agent(viewer.agent, self.agents)
        return self._injector.inject(InjectionRequest(viewer, task, options))

    def _checked(self, content: note_content.C) -> note_content.C:
        checked = note_content.check_content(content)
        if checked.scope.agent is not None:
            agent_settings.check_agent(checked.scope.agent, self.agents)
        return checked

    def _set_status(self, ref: str, status: EntryStatus, author: Author) -> Entry:
        entry = self.get(ref)
        if entry.status != status:
            return self.edit(replace(entry, status=status), author=author)
        if not entry.flags:
            return entry
        with notebook_transaction(self.engine) as connection:
            return note_flags.clear_after_review(connection, entry, author)
