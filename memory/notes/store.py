"""The truth about notes and examples: each function works within the transaction it is given.

One that writes is given that of `note_generation.changing`.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from uuid import uuid4

from sqlalchemy import (
    Connection,
    Row,
    Select,
    delete,
    insert,
    select,
    update,
)

from memory import scope
from memory.errors import NoteInvalid, NoteNotFound, StaleUpdate
from memory.notes import content as note_content
from memory.notes import type_store
from memory.notes.content import C
from memory.notes.tables import entries, entry_versions, note_types
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
    ReviewFlag,
)
from memory.scope import Scope

PERSON = Author("person")

IDS_PER_QUERY = 500
"""Ids that one SQL statement names at most."""


def insert_entry(
    connection: Connection,
    content: EntryContent,
    *,
    author: Author = PERSON,
    at: datetime,
    source_run: str | None = None,
    confidence: int | None = None,
    flags: Sequence[ReviewFlag] = (),
) -> Entry:
    """Keep a new note or example.

    Raises:
        NoteInvalid: its note type is not known, or not of its type.
    """
    content = _of_known_type(connection, content)
    row = {
        **_columns(content),
        "id": str(uuid4()),
        "kind": note_content.kind_of(content),
        "confidence": confidence,
        "flags": [list(flag) for flag in flags],
        "author": author.kind,
        "author_name": author.name,
        "source_run": source_run,
        "version": 1,
        "created_at": at,
        "updated_at": at,
    }
    connection.execute(insert(entries).values(**row))
    made = get_entry(connection, str(row["id"]))
    _keep_version(connection, made, author, at)
    return made


def get_entry(connection: Connection, ref: str, kind: EntryKind | None = None) -> Entry:
    """The entry with this id, or the unambiguous beginning of one of six signs or more.

    Raises:
        NoteNotFound: there is none, or there are several.
    """
    what = kind or "note or example"
    query = select_entries().where(entries.c.id.startswith(ref, autoescape=True)).limit(2)
    if kind is not None:
        query = query.where(entries.c.kind == kind)
    rows = connection.execute(query).all() if len(ref) >= 6 else []
    if len(rows) > 1:
        raise NoteNotFound(f"{ref!r} begins the id of more than one {what}: say more of it")
    if not rows:
        raise NoteNotFound(f"no {what} {ref!r}: `harness {kind or 'note'}s list` shows all")
    return entry_from_row(rows[0])


def entries_by_id(connection: Connection, ids: Sequence[str]) -> dict[str, Entry]:
    """Entries by id; those that are gone are left out."""
    found: dict[str, Entry] = {}
    for start in range(0, len(ids), IDS_PER_QUERY):
        part = ids[start : start + IDS_PER_QUERY]
        rows = connection.execute(select_entries().where(entries.c.id.in_(part)))
        found |= {row.id: entry_from_row(row) for row in rows}
    return found


def entries_by_key(connection: Connection, keys: Sequence[int]) -> dict[int, Entry]:
    """Entries by key; those that are gone are left out."""
    rows = connection.execute(select_entries().where(entries.c.key.in_(keys)))
    return {row.key: entry_from_row(row) for row in rows}


def exact_duplicates(connection: Connection, content: EntryContent) -> list[Entry]:
    """Entries of the same scope that say exactly the same, the oldest first."""
    query = select_entries().where(
        entries.c.kind == note_content.kind_of(content),
        entries.c.digest == note_content.content_digest(content),
        entries.c.scope == scope.scope_key(content.scope),
    )
    return [entry_from_row(row) for row in connection.execute(query.order_by(entries.c.key))]


def update_entry(connection: Connection, wanted: Entry, *, author: Author, at: datetime) -> Entry:
    """Make the entry what `wanted` says, if it is still at the version that `wanted` was read at.

    Raises:
        NoteNotFound: it is gone by now.
        StaleUpdate: somebody else changed it in between; nothing is written.
    """
    wanted = _of_known_type(connection, wanted)
    mine = (entries.c.id == wanted.id, entries.c.version == wanted.version)
    values = {**_columns(wanted), "version": wanted.version + 1, "updated_at": at}
    done = connection.execute(update(entries).where(*mine).values(**values))
    if done.rowcount != 1:
        now = get_entry(connection, wanted.id)
        raise StaleUpdate(
            f"{note_content.kind_of(wanted)} {wanted.id} is at version {now.version} by now; your "
            f"change was made from version {wanted.version} and is not kept. Look at what is "
            "there, then make your change again"
        )
    after = get_entry(connection, wanted.id)
    _keep_version(connection, after, author, at)
    return after


def delete_entry(connection: Connection, entry: Entry) -> None:
    """Forget an entry with its history."""
    connection.execute(delete(entries).where(entries.c.key == entry.key))


def entry_history(connection: Connection, key: int) -> list[EntryVersion]:
    """Every version, the newest first."""
    query = select(entry_versions).where(entry_versions.c.entry_key == key)
    return [
        EntryVersion(
            version=row.version,
            at=row.at,
            author=Author(row.author, row.author_name),
            content=note_content.entry_content_from_json(row.content),
        )
        for row in connection.execute(query.order_by(entry_versions.c.version.desc()))
    ]


def previous_content(connection: Connection, entry: Entry) -> EntryContent:
    """What it said before its last change, with the type that its note type has by now.

    Raises:
        NoteInvalid: it was never changed.
    """
    past = entry_history(connection, entry.key)
    if len(past) < 2:
        raise NoteInvalid(f"{entry.id} was never changed: there is nothing to undo")
    before = past[1].content
    if isinstance(before, ExampleContent):
        return before
    types = {one.name: one.type for one in type_store.list_note_types(connection)}
    return replace(before, type=types.get(before.note_type, before.type))


def select_entries() -> "Select[tuple[object, ...]]":
    """A query for all notes and examples, each with the priority of its note type."""
    joined = entries.outerjoin(note_types, note_types.c.name == entries.c.note_type)
    return select(entries, note_types.c.priority).select_from(joined)


def _columns(content: EntryContent) -> dict[str, object]:
    whose = content.scope
    row: dict[str, object] = {
        "type": "",
        "note_type": "",
        "text": note_content.searchable_text(content),
        "output": "",
        "score": None,
        "scope": scope.scope_key(whose),
        "agent": whose.agent,
        "user_id": whose.user,
        "company": whose.company,
        "status": content.status,
        "expires_at": content.expires_at,
        "protection": content.protection,
        "digest": note_content.content_digest(content),
    }
    if isinstance(content, NoteContent):
        return row | {"type": content.type, "note_type": content.note_type}
    return row | {"output": content.output, "score": content.score}


def _of_known_type(connection: Connection, content: C) -> C:
    if isinstance(content, ExampleContent):
        return content
    known = {one.name.lower(): one for one in type_store.list_note_types(connection)}
    found = known.get(content.note_type.lower())
    if found is None:
        names = ", ".join(one.name for one in known.values())
        raise NoteInvalid(f"no note type {content.note_type!r}; there are {names}")
    if found.type != content.type:
        raise NoteInvalid(
            f"note type {found.name!r} is for notes of type {found.type}, not {content.type}"
        )
    return replace(content, note_type=found.name)


def _keep_version(connection: Connection, entry: Entry, author: Author, at: datetime) -> None:
    connection.execute(
        insert(entry_versions).values(
            entry_key=entry.key,
            version=entry.version,
            at=at,
            author=author.kind,
            author_name=author.name,
            content=note_content.entry_content_json(entry),
        )
    )


def entry_from_row(row: "Row[tuple[object, ...]]") -> Entry:
    """A row of `every_entry` as what it is."""
    governed = {
        "scope": Scope(agent=row.agent, user=row.user_id, company=row.company),
        "status": row.status,
        "expires_at": row.expires_at,
        "protection": row.protection,
    }
    kept = {
        "id": row.id,
        "key": row.key,
        "version": row.version,
        "author": Author(row.author, row.author_name),
        "source_run": row.source_run,
        "confidence": row.confidence,
        "flags": tuple(ReviewFlag(*flag) for flag in row.flags),
        "created_at": row.created_at,
        "updated_at": row.updated_at,
    }
    if row.kind == "note":
        own = {"text": row.text, "type": row.type, "note_type": row.note_type}
        return Note(**own, **governed, **kept, priority=row.priority or 0)
    return Example(input=row.text, output=row.output, score=row.score, **governed, **kept)
