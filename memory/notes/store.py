"""SQL statements that read and write notes and examples, each within the caller's transaction.

Functions that write need the connection of `notebook_transaction`. `NoteTypes` stores the
categories of notes: five standard ones, and the user's own.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, replace
from datetime import datetime
from uuid import uuid4

from sqlalchemy import (
    Connection,
    Engine,
    Row,
    Select,
    Text,
    cast,
    delete,
    func,
    insert,
    select,
    update,
)

from memory.content import sanitize_text
from memory.database import read_transaction, write_transaction
from memory.errors import NoteInvalid, NoteNotFound, StaleUpdate
from memory.notes.content import (
    C,
    check_note_type,
    content_digest,
    entry_content_from_json,
    entry_content_json,
    kind_of,
    searchable_text,
)
from memory.notes.types import (
    Author,
    Entry,
    EntryContent,
    EntryKind,
    EntryVersion,
    Example,
    ExampleContent,
    Note,
    NoteContent,
    NoteType,
    ReviewFlag,
)
from memory.scope import Scope, scope_key
from memory.tables import entries, entry_versions, generation, note_types

PERSON = Author("person")

_RECORD_FIELDS = (
    *("id", "key", "version", "status", "expires_at", "protection"),
    *("source_run", "confidence", "evidence", "created_at", "updated_at"),
)


@contextmanager
def notebook_transaction(engine: Engine) -> Iterator[Connection]:
    """Yield the connection of a transaction that writes to the notebook.

    Only one such transaction runs at a time, on Postgres too: the row of `generation` that it
    updates first is locked until it ends.
    """
    with write_transaction(engine) as connection:
        # Without this, two transactions on Postgres could each miss what the other writes.
        connection.execute(update(generation).values(number=generation.c.number + 1))
        yield connection


def insert_entry(
    connection: Connection,
    content: EntryContent,
    *,
    author: Author = PERSON,
    at: datetime,
    source_run: str | None = None,
    confidence: int | None = None,
    flags: Sequence[ReviewFlag] = (),
    evidence: str = "",
) -> Entry:
    """Store a new note or example.

    Raises:
        NoteInvalid: its note type is unknown, or has another base type.
    """
    content = _with_known_note_type(connection, content)
    row = {
        **_columns(content),
        "id": str(uuid4()),
        "kind": kind_of(content),
        "confidence": confidence,
        "flags": [astuple(flag) for flag in flags],
        "evidence": sanitize_text(evidence),
        "author": author.kind,
        "author_name": author.name,
        "source_run": source_run,
        "version": 1,
        "created_at": at,
        "updated_at": at,
    }
    connection.execute(insert(entries).values(**row))
    return _add_version(connection, str(row["id"]), author, at)


def get_entry(connection: Connection, ref: str, kind: EntryKind | None = None) -> Entry:
    """Return the entry with this id, or with an id that begins with these six or more characters.

    Raises:
        NoteNotFound: there is none, or several ids begin so.
    """
    described = kind or "note or example"
    query = select_entries().where(entries.c.id.startswith(ref, autoescape=True)).limit(2)
    if kind is not None:
        query = query.where(entries.c.kind == kind)
    # Many ids share a shorter start, and the next entry may take it.
    rows = connection.execute(query).all() if len(ref) >= 6 else []
    if len(rows) > 1:
        raise NoteNotFound(f"more than one {described} has an id that begins with {ref!r}")
    if not rows:
        raise NoteNotFound(f"no {described} {ref!r}: `harness {kind or 'note'}s list` shows all")
    return entry_from_row(rows[0])


def entries_by_key(connection: Connection, keys: Sequence[int]) -> dict[int, Entry]:
    """Return the entries that exist among `keys`."""
    rows = connection.execute(select_entries().where(entries.c.key.in_(keys)))
    return {row.key: entry_from_row(row) for row in rows}


def exact_duplicates(connection: Connection, content: EntryContent) -> list[Entry]:
    """Return the entries of the same scope whose text has the same digest, the oldest first."""
    query = select_entries().where(
        entries.c.kind == kind_of(content),
        entries.c.digest == content_digest(content),
        entries.c.scope == scope_key(content.scope),
    )
    return [entry_from_row(row) for row in connection.execute(query.order_by(entries.c.key))]


def update_entry(connection: Connection, wanted: Entry, *, author: Author, at: datetime) -> Entry:
    """Store the content of `wanted` as a new version, if `wanted.version` is still the latest.

    Raises:
        NoteInvalid: its note type is unknown, or has another base type.
        NoteNotFound: it was removed.
        StaleUpdate: it was changed since; nothing is written.
    """
    wanted = _with_known_note_type(connection, wanted)
    at_version = (entries.c.id == wanted.id, entries.c.version == wanted.version)
    values = {**_columns(wanted), "version": wanted.version + 1, "updated_at": at}
    updated = connection.execute(update(entries).where(*at_version).values(**values))
    if updated.rowcount != 1:
        stored = get_entry(connection, wanted.id)
        raise StaleUpdate(
            f"{kind_of(wanted)} {wanted.id} is at version {stored.version} now; your change is "
            f"based on version {wanted.version} and was not saved. Read it again, then repeat "
            "your change"
        )
    return _add_version(connection, wanted.id, author, at)


def entry_history(connection: Connection, key: int) -> list[EntryVersion]:
    """Return every version, the newest first."""
    query = select(entry_versions).where(entry_versions.c.entry_key == key)
    return [
        EntryVersion(
            version=row.version,
            at=row.at,
            author=Author(row.author, row.author_name),
            content=entry_content_from_json(row.content),
        )
        for row in connection.execute(query.order_by(entry_versions.c.version.desc()))
    ]


def previous_content(connection: Connection, entry: Entry) -> EntryContent:
    """Return the content before the last change, with the present base type of its note type.

    Raises:
        NoteInvalid: it was never changed.
    """
    history = entry_history(connection, entry.key)
    if len(history) < 2:
        raise NoteInvalid(f"{entry.id} was never changed: there is nothing to undo")
    content = history[1].content
    if isinstance(content, ExampleContent):
        return content
    base_types = {one.name: one.type for one in list_note_types(connection)}
    return replace(content, type=base_types.get(content.note_type, content.type))


def put_flags(connection: Connection, entry: Entry, flags: Sequence[ReviewFlag]) -> None:
    """Replace the review flags of an entry. This makes no new version."""
    stored = [astuple(flag) for flag in flags]
    connection.execute(update(entries).where(entries.c.key == entry.key).values(flags=stored))


def delete_flags_about(connection: Connection, other: Entry) -> None:
    """Delete every review flag that names `other`."""
    # A substring of the JSON finds the candidates in both databases; the exact ids are compared
    # below.
    names_it = cast(entries.c.flags, Text).contains(other.id, autoescape=True)
    for row in connection.execute(select_entries().where(names_it)).all():
        entry = entry_from_row(row)
        put_flags(connection, entry, [flag for flag in entry.flags if flag.other != other.id])


def select_entries() -> "Select[tuple[object, ...]]":
    """Return a query for all notes and examples, each with the priority of its note type."""
    joined = entries.outerjoin(note_types, note_types.c.name == entries.c.note_type)
    return select(entries, note_types.c.priority).select_from(joined)


def entry_from_row(row: "Row[tuple[object, ...]]") -> Entry:
    """Return the note or example of a row of `select_entries`."""
    fields = row._asdict()
    shared = {name: fields[name] for name in _RECORD_FIELDS} | {
        "scope": Scope(agent=row.agent, user=row.user_id, company=row.company),
        "author": Author(row.author, row.author_name),
        "flags": tuple(ReviewFlag(*flag) for flag in row.flags),
    }
    if row.kind == "note":
        note_fields = {"text": row.text, "type": row.type, "note_type": row.note_type}
        return Note(**note_fields, **shared, priority=row.priority or 0)
    return Example(input=row.text, output=row.output, score=row.score, **shared)


def _columns(content: EntryContent) -> dict[str, object]:
    scope = content.scope
    row: dict[str, object] = {
        "type": "",
        "note_type": "",
        "text": searchable_text(content),
        "output": "",
        "score": None,
        "scope": scope_key(scope),
        "agent": scope.agent,
        "user_id": scope.user,
        "company": scope.company,
        "status": content.status,
        "expires_at": content.expires_at,
        "protection": content.protection,
        "digest": content_digest(content),
    }
    if isinstance(content, NoteContent):
        return row | {"type": content.type, "note_type": content.note_type}
    return row | {"output": content.output, "score": content.score}


def _with_known_note_type(connection: Connection, content: C) -> C:
    if isinstance(content, ExampleContent):
        return content
    known = {one.name.lower(): one for one in list_note_types(connection)}
    found = known.get(content.note_type.lower())
    if found is None:
        names = ", ".join(one.name for one in known.values())
        raise NoteInvalid(f"no note type {content.note_type!r}; there are {names}")
    if found.type != content.type:
        raise NoteInvalid(
            f"note type {found.name!r} is for notes of type {found.type}, not {content.type}"
        )
    return replace(content, note_type=found.name)


def _add_version(connection: Connection, id_: str, author: Author, at: datetime) -> Entry:
    entry = get_entry(connection, id_)
    connection.execute(
        insert(entry_versions).values(
            entry_key=entry.key,
            version=entry.version,
            at=at,
            author=author.kind,
            author_name=author.name,
            content=entry_content_json(entry),
        )
    )
    return entry


def list_note_types(connection: Connection) -> list[NoteType]:
    """Return all note types, the highest priority first."""
    query = select(note_types).order_by(note_types.c.priority.desc(), note_types.c.name)
    return [NoteType(**row._asdict()) for row in connection.execute(query)]


@dataclass(frozen=True)
class NoteTypes:
    """The note types of one notebook."""

    engine: Engine

    def list(self) -> Sequence[NoteType]:
        """Return all note types, the highest priority first."""
        with read_transaction(self.engine) as connection:
            return list_note_types(connection)

    def save(self, wanted: NoteType) -> NoteType:
        """Store a note type, replacing one with the same name in any case; return it as stored.

        Raises:
            NoteInvalid: it is not valid, or would change the base type of a standard type.
        """
        wanted = check_note_type(wanted)
        with notebook_transaction(self.engine) as connection:
            old = _find(connection, wanted.name)
            if old is not None:
                wanted = replace(wanted, name=old.name, standard=old.standard)
            if old is not None and old.standard and old.type != wanted.type:
                raise NoteInvalid(
                    f"note type {old.name!r} is a standard one: its type stays {old.type}"
                )
            connection.execute(delete(note_types).where(note_types.c.name == wanted.name))
            connection.execute(insert(note_types).values(**vars(wanted)))
            of_type = entries.c.note_type == wanted.name
            connection.execute(update(entries).where(of_type).values(type=wanted.type))
        return wanted

    def remove(self, name: str) -> None:
        """Delete one of the user's own note types.

        Raises:
            NoteInvalid: it does not exist, is a standard one, or notes have it.
        """
        with notebook_transaction(self.engine) as connection:
            old = _find(connection, name)
            if old is None or old.name != name or old.standard:
                why = "a standard one" if old and old.standard else "not known"
                raise NoteInvalid(
                    f"note type {name!r} is {why}: only types of your own can be removed"
                )
            used = select(func.count()).select_from(entries).where(entries.c.note_type == name)
            if number := connection.execute(used).scalar_one():
                raise NoteInvalid(
                    f"note type {name!r} is still used by {number} notes: change them first"
                )
            connection.execute(delete(note_types).where(note_types.c.name == name))


def _find(connection: Connection, name: str) -> NoteType | None:
    same = (one for one in list_note_types(connection) if one.name.lower() == name.lower())
    return next(same, None)
