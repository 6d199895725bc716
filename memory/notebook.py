"""Notes and examples: the one door. Every process may open it at the same time.

Every write grows the generation in its own transaction; what is remembered between calls is
dropped as soon as another generation is seen, whoever wrote.
"""

import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, TypedDict, Unpack, overload

from sqlalchemy import Connection, Engine

from contracts.errors import ModelUnavailable
from memory import (
    agent_settings,
    likeness,
    note_content,
    note_search,
    note_store,
    note_vectors,
    rating,
    scope,
    shown,
)
from memory.agent_settings import AgentSettings, Injecting
from memory.database import open_database, reading, writing
from memory.errors import NoteInvalid
from memory.injection import Injection, Injector, Request
from memory.likeness import Neighbour
from memory.note_store import PERSON
from memory.note_types import (
    Author,
    Content,
    Entry,
    EntryVersion,
    Example,
    ExampleContent,
    Flag,
    Kind,
    Note,
    NoteContent,
    NoteType,
    Status,
    Where,
)
from memory.rating import Rating
from memory.scope import Scope
from memory.shown import Shown
from memory.types import Embedder, Vector

Clock = Callable[[], datetime]

ALL = Where()

BATCH = 200
"""Texts embedded at once while a backlog is worked off."""

_log = logging.getLogger(__name__)


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
    flags: Sequence[Flag]


class Notebook:
    """Keeps notes and examples, their types, and what each agent is given of them.

    `ref` is an id, or the beginning of one. Threads may share it.
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
        self._injector = Injector(engine, embedder, clock)

    @overload
    def add(self, content: NoteContent, **known: Unpack[_Known]) -> Note: ...
    @overload
    def add(self, content: ExampleContent, **known: Unpack[_Known]) -> Example: ...
    @overload
    def add(self, content: Content, **known: Unpack[_Known]) -> Entry: ...
    def add(self, content: Content, **known: Unpack[_Known]) -> Entry:
        """Keep a new note or example; one that no person wrote is Pending, whatever it asks for.

        Raises:
            NoteInvalid: what is wrong with it; also when an agent writes what tells what to do.
            AgentUnknown: its scope names an agent that there is not.
        """
        content = self._checked(content)
        author = known.setdefault("author", PERSON)
        if author.kind != "person":
            content = replace(content, status="Pending", protection="Normal")
        if author.kind == "agent":
            note_content.check_descriptive(content)
        made = self._embed([note_content.searched_text(content)])
        with writing(self.engine) as connection:
            entry = note_store.add(connection, content, at=self.clock(), **known)
            self._keep_vector(connection, entry, made)
        return entry

    @overload
    def get(self, ref: str, kind: Literal["note"]) -> Note: ...
    @overload
    def get(self, ref: str, kind: Literal["example"]) -> Example: ...
    @overload
    def get(self, ref: str, kind: Kind | None = None) -> Entry: ...
    def get(self, ref: str, kind: Kind | None = None) -> Entry:
        """The note or example.

        Raises:
            NoteNotFound: there is none of that kind.
        """
        with reading(self.engine) as connection:
            return note_store.get(connection, ref, kind)

    @overload
    def list(self, kind: Literal["note"], where: Where = ALL) -> Sequence[Note]: ...
    @overload
    def list(self, kind: Literal["example"], where: Where = ALL) -> Sequence[Example]: ...
    @overload
    def list(self, kind: Kind, where: Where = ALL) -> Sequence[Entry]: ...
    def list(self, kind: Kind, where: Where = ALL) -> Sequence[Entry]:
        """Notes or examples that pass the filter, in its order."""
        with reading(self.engine) as connection:
            return note_store.list_all(connection, kind, where)

    def count(self, kind: Kind, where: Where = ALL) -> int:
        """How many pass the filter, whatever its limit."""
        with reading(self.engine) as connection:
            return note_store.count(connection, kind, where)

    @overload
    def edit(self, wanted: Note, *, author: Author = PERSON) -> Note: ...
    @overload
    def edit(self, wanted: Example, *, author: Author = PERSON) -> Example: ...
    def edit(self, wanted: Entry, *, author: Author = PERSON) -> Entry:
        """Make an entry what `wanted` says: `edit(replace(entry, text="…"))`.

        Raises:
            NoteInvalid, NoteNotFound, AgentUnknown.
            StaleUpdate: it is no longer at the version that `wanted` was read at.
        """
        wanted = self._checked(wanted)
        if author.kind == "agent":
            raise NoteInvalid("an agent cannot change what is kept: it may write a new note")
        made = self._embed([note_content.searched_text(wanted)])
        with writing(self.engine) as connection:
            after = note_store.change(connection, wanted, author=author, at=self.clock())
            self._keep_vector(connection, after, made)
        return after

    def undo(self, ref: str, *, author: Author = PERSON) -> Entry:
        """Bring back what was there before the last change, as a new version.

        Raises:
            NoteInvalid: it was never changed.
        """
        now = self.get(ref)
        past = self.history(ref)
        if len(past) < 2:
            raise NoteInvalid(f"{now.id} was never changed: there is nothing to undo")
        before = past[1].content
        fields = {name: getattr(before, name) for name in type(before).__dataclass_fields__}
        return self.edit(replace(now, **fields), author=author)

    def approve(self, ref: str, *, author: Author = PERSON) -> Entry:
        """Make it Active: agents whose scope fits are given it from now on."""
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
        with writing(self.engine) as connection:
            entry = note_store.get(connection, ref)
            note_store.remove(connection, entry)
        return entry

    def history(self, ref: str) -> Sequence[EntryVersion]:
        """Every version, the newest first."""
        with reading(self.engine) as connection:
            return note_store.history(connection, note_store.get(connection, ref).key)

    def neighbours(self, content: Content) -> Sequence[Neighbour]:
        """What says nearly the same and could be given together with it; none without a model."""
        made = self._embed([note_content.searched_text(content)])
        if not made or self.embedder is None:
            return []
        with reading(self.engine) as connection:
            return likeness.neighbours(connection, content, made[0], self.embedder.name)

    def add_flag(self, ref: str, flag: Flag) -> None:
        """Have a person see something beside an entry; its content stays as it is."""
        with writing(self.engine) as connection:
            entry = note_store.get(connection, ref)
            note_store.set_flags(connection, entry, tuple(dict.fromkeys((*entry.flags, flag))))

    def visible_notes(self, viewer: Scope, *, limit: int) -> Sequence[Entry]:
        """The notes that a viewer may be given, in the order of strategy Recent."""
        with reading(self.engine) as connection:
            keys = note_search.ordered(
                connection, "note", viewer, "Recent", at=self.clock(), limit=limit
            )
            return note_search.in_order(connection, keys)

    def note_types(self) -> Sequence[NoteType]:
        """All note types, the most important first."""
        with reading(self.engine) as connection:
            return note_store.types(connection)

    def put_note_type(self, wanted: NoteType) -> NoteType:
        """Keep a note type, over one of the same name; the standard ones keep their type.

        Raises:
            NoteInvalid: what is wrong with it.
        """
        wanted = note_content.checked_type(wanted)
        with writing(self.engine) as connection:
            note_store.put_type(connection, wanted)
            return next(t for t in note_store.types(connection) if t.name == wanted.name)

    def remove_note_type(self, name: str) -> None:
        """Forget a note type of one's own that no note has.

        Raises:
            NoteInvalid: there is none, it is a standard one, or it is in use.
        """
        with writing(self.engine) as connection:
            note_store.remove_type(connection, name)

    def agent(self, name: str) -> AgentSettings:
        """What an agent is given.

        Raises:
            AgentUnknown: no agent has this name.
        """
        agent_settings.known(name, self.agents)
        with reading(self.engine) as connection:
            return agent_settings.get(connection, name)

    def set_agent(self, wanted: AgentSettings) -> AgentSettings:
        """Change what an agent is given: `set_agent(replace(settings, max_notes=3))`.

        Raises:
            AgentUnknown, NoteInvalid.
            StaleUpdate: somebody else changed the settings in between.
        """
        agent_settings.known(wanted.agent, self.agents)
        with writing(self.engine) as connection:
            return agent_settings.put(connection, wanted, self.clock())

    def inject(self, viewer: Scope, task: str, *, options: Injecting | None = None) -> Injection:
        """What the viewer's agent is given for a task; `options` stand in for the agent's own.

        Empty ids of the viewer are not known, and nothing that needs them is seen.

        Raises:
            AgentUnknown, NoteInvalid: the viewer names an agent that there is not, or odd ids.
        """
        viewer = scope.checked(viewer)
        if viewer.agent is not None:
            agent_settings.known(viewer.agent, self.agents)
        return self._injector.inject(Request(viewer, task, options))

    def log_shown(self, run_id: str, node: str, injection: Injection) -> None:
        """Note which notes and examples a node of a run was given."""
        with writing(self.engine) as connection:
            shown.log(connection, run_id, node, injection, self.clock())

    def shown_to(self, run_id: str) -> Sequence[Shown]:
        """What a run was given, in the order of its nodes and of their prompts."""
        with reading(self.engine) as connection:
            return shown.of_run(connection, run_id)

    def runs_given(self, entry_id: str) -> int:
        """How many runs were given this note or example."""
        with reading(self.engine) as connection:
            return shown.runs_given(connection, entry_id)

    def rate(self, run_id: str, score: int, *, by: str = "") -> Rating:
        """Keep what a person thinks of a run, 0 to 100; a later rating replaces an earlier one.

        Raises:
            NoteInvalid: the score is out of range.
        """
        given = Rating(run_id, note_content.score(score), by, self.clock())
        with writing(self.engine) as connection:
            rating.put(connection, given)
        return given

    def rating(self, run_id: str) -> Rating | None:
        """What a person thinks of a run; None when nobody said."""
        with reading(self.engine) as connection:
            return rating.get(connection, run_id)

    def embed_waiting(self) -> int:
        """Make the vectors that are missing: the model was away, or it is another one now.

        Not for the request path. Gives how many were made; stops when the model does not answer.
        """
        made = 0
        while self.embedder is not None:
            with reading(self.engine) as connection:
                batch = note_vectors.waiting(connection, self.embedder.name, BATCH)
            vectors = self._embed([item.text for item in batch])
            if not vectors:
                break
            with writing(self.engine) as connection:
                now = note_vectors.texts(connection, [item.key for item in batch])
                for item, vector in zip(batch, vectors, strict=True):
                    if now.get(item.key) == item.text:  # else it was changed meanwhile
                        note_vectors.put(connection, item.key, self.embedder.name, vector)
                note_store.changed(connection)
            made += len(batch)
        return made

    def _checked(self, content: note_content.C) -> note_content.C:
        checked = note_content.checked(content)
        if checked.scope.agent is not None:
            agent_settings.known(checked.scope.agent, self.agents)
        return checked

    def _set_status(self, ref: str, status: Status, author: Author) -> Entry:
        entry = self.get(ref)
        if entry.status == status:
            return entry
        return self.edit(replace(entry, status=status), author=author)

    def _embed(self, texts: Sequence[str]) -> Sequence[Vector] | None:
        if self.embedder is None or not texts:
            return None
        try:
            return list(self.embedder.embed(texts))
        except ModelUnavailable as error:
            _log.warning("notes get their vectors later: %s", error)
            return None

    def _keep_vector(
        self, connection: Connection, entry: Entry, made: Sequence[Vector] | None
    ) -> None:
        note_vectors.forget(connection, entry.key)
        if made and self.embedder is not None and entry.status != "Revoked":
            note_vectors.put(connection, entry.key, self.embedder.name, made[0])
