"""The truth about notes and examples: each function works within the transaction it is given."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from uuid import uuid4

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    delete,
    func,
    insert,
    or_,
    select,
    update,
)

from memory import note_content, scope
from memory.errors import NoteInvalid, NoteNotFound, StaleUpdate
from memory.note_content import C
from memory.note_tables import entries, entry_versions, generation, note_types
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
    Where,
)
from memory.scope import Scope

PERSON = Author("person")

IN_ONE_QUESTION = 500
"""Ids that one SQL statement names at the most."""


def changed(connection: Connection) -> None:
    """Grow the generation: every cache of every process is stale once this commits."""
    connection.execute(update(generation).values(number=generation.c.number + 1))


def current_generation(connection: Connection) -> int:
    """The number that caches go by."""
    return int(connection.execute(select(generation.c.number)).scalar_one())


def add(
    connection: Connection,
    content: Content,
    *,
    author: Author = PERSON,
    at: datetime,
    source_run: str | None = None,
    confidence: int | None = None,
    flags: Sequence[Flag] = (),
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
    made = get(connection, str(row["id"]))
    _keep_version(connection, made, author, at)
    changed(connection)
    return made


def get(connection: Connection, ref: str, kind: Kind | None = None) -> Entry:
    """The entry with this id, or the unambiguous beginning of one of six signs or more.

    Raises:
        NoteNotFound: there is none, or there are several.
    """
    what = kind or "note or example"
    query = _entries().where(entries.c.id.startswith(ref, autoescape=True)).limit(2)
    if kind is not None:
        query = query.where(entries.c.kind == kind)
    rows = connection.execute(query).all() if len(ref) >= 6 else []
    if len(rows) > 1:
        raise NoteNotFound(f"{ref!r} begins the id of more than one {what}: say more of it")
    if not rows:
        raise NoteNotFound(f"no {what} {ref!r}: `harness {kind or 'note'}s list` shows all")
    return _entry(rows[0])


def by_id(connection: Connection, ids: Sequence[str]) -> dict[str, Entry]:
    """Entries by id; those that are gone are left out."""
    found: dict[str, Entry] = {}
    for start in range(0, len(ids), IN_ONE_QUESTION):
        part = ids[start : start + IN_ONE_QUESTION]
        rows = connection.execute(_entries().where(entries.c.id.in_(part)))
        found |= {row.id: _entry(row) for row in rows}
    return found


def by_key(connection: Connection, keys: Sequence[int]) -> dict[int, Entry]:
    """Entries by key; those that are gone are left out."""
    rows = connection.execute(_entries().where(entries.c.key.in_(keys)))
    return {row.key: _entry(row) for row in rows}


def same_as(connection: Connection, content: Content) -> list[Entry]:
    """Entries of the same scope that say exactly the same, the oldest first."""
    query = _entries().where(
        entries.c.kind == note_content.kind_of(content),
        entries.c.digest == note_content.fingerprint(content),
        entries.c.scope == scope.key(content.scope),
    )
    return [_entry(row) for row in connection.execute(query.order_by(entries.c.key))]


def change(connection: Connection, wanted: Entry, *, author: Author, at: datetime) -> Entry:
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
        now = get(connection, wanted.id)
        raise StaleUpdate(
            f"{note_content.kind_of(wanted)} {wanted.id} is at version {now.version} by now; your "
            f"change was made from version {wanted.version} and is not kept. Look at what is "
            "there, then make your change again"
        )
    after = get(connection, wanted.id)
    _keep_version(connection, after, author, at)
    changed(connection)
    return after


def set_flags(connection: Connection, entry: Entry, flags: Sequence[Flag]) -> None:
    """Replace what a person should see beside it; no change of the content, so no version."""
    kept = [list(flag) for flag in flags]
    connection.execute(update(entries).where(entries.c.key == entry.key).values(flags=kept))
    changed(connection)


def remove(connection: Connection, entry: Entry) -> None:
    """Forget an entry with its history."""
    connection.execute(delete(entries).where(entries.c.key == entry.key))
    changed(connection)


def history(connection: Connection, key: int) -> list[EntryVersion]:
    """Every version, the newest first."""
    query = select(entry_versions).where(entry_versions.c.entry_key == key)
    return [
        EntryVersion(
            version=row.version,
            at=row.at,
            author=Author(row.author, row.author_name),
            content=note_content.content_from(row.content),
        )
        for row in connection.execute(query.order_by(entry_versions.c.version.desc()))
    ]


def types(connection: Connection) -> list[NoteType]:
    """All note types, the most important first."""
    order = (note_types.c.priority.desc(), note_types.c.name)
    return [_note_type(row) for row in connection.execute(select(note_types).order_by(*order))]


def put_type(connection: Connection, wanted: NoteType) -> None:
    """Keep a note type, over one of the same name.

    Raises:
        NoteInvalid: it is a standard one, and another type is wanted of it.
    """
    old = next((one for one in types(connection) if one.name == wanted.name), None)
    if old is not None and old.standard and old.type != wanted.type:
        raise NoteInvalid(f"note type {old.name!r} is a standard one: its type stays {old.type}")
    connection.execute(delete(note_types).where(note_types.c.name == wanted.name))
    row = {name: getattr(wanted, name) for name in ("name", "type", "priority", "description")}
    connection.execute(insert(note_types).values(**row, standard=bool(old and old.standard)))
    connection.execute(
        update(entries).where(entries.c.note_type == wanted.name).values(type=wanted.type)
    )
    changed(connection)


def remove_type(connection: Connection, name: str) -> None:
    """Forget a note type that no note has.

    Raises:
        NoteInvalid: there is no such type, it is a standard one, or notes have it.
    """
    old = next((one for one in types(connection) if one.name == name), None)
    if old is None or old.standard:
        why = "not known" if old is None else "a standard one"
        raise NoteInvalid(f"note type {name!r} is {why}: only types of your own can be removed")
    used = select(func.count()).select_from(entries).where(entries.c.note_type == name)
    if number := connection.execute(used).scalar_one():
        raise NoteInvalid(f"note type {name!r} is still that of {number} notes: change them first")
    connection.execute(delete(note_types).where(note_types.c.name == name))
    changed(connection)


def list_all(connection: Connection, kind: Kind, where: Where) -> list[Entry]:
    """Entries in the order that is asked for."""
    query = _entries().where(*conditions(kind, where)).order_by(*_order(where))
    query = query.limit(where.limit).offset(where.offset)
    return [_entry(row) for row in connection.execute(query)]


def count(connection: Connection, kind: Kind, where: Where) -> int:
    """How many entries there are, whatever the limit."""
    query = select(func.count()).select_from(entries).where(*conditions(kind, where))
    return int(connection.execute(query).scalar_one())


def conditions(kind: Kind, where: Where) -> list[ColumnElement[bool]]:
    """The filter as SQL."""
    columns = entries.c
    given = {
        "status": where.status,
        "type": where.type,
        "note_type": where.note_type,
        "agent": where.agent,
        "user_id": where.user,
        "company": where.company,
        "source_run": where.source_run,
        "author": where.author,
    }
    wanted = [columns[name] == value for name, value in given.items() if value is not None]
    wanted += _of_scope_kind(where)
    if where.flagged is not None:
        empty = func.length(func.cast(columns.flags, entries.c.text.type)) <= 2
        wanted.append(~empty if where.flagged else empty)
    for word in where.text.split():
        either = (columns.text, columns.output)
        wanted.append(or_(*(text.icontains(word, autoescape=True) for text in either)))
    return [columns.kind == kind, *wanted]


def _of_scope_kind(where: Where) -> list[ColumnElement[bool]]:
    named = (entries.c.agent, entries.c.user_id, entries.c.company)
    match where.scope_kind:
        case None:
            return []
        case "everyone":
            return [column.is_(None) for column in named]
        case "agent":
            return [entries.c.agent.is_not(None)]
        case "user":
            return [entries.c.user_id.is_not(None)]
        case "company":
            return [entries.c.company.is_not(None)]


def _order(where: Where) -> list[ColumnElement[object]]:
    columns = entries.c
    by: dict[str, list[ColumnElement[object]]] = {
        "updated": [columns.updated_at],
        "created": [columns.created_at],
        "type": [columns.type, columns.note_type],
        "status": [columns.status],
        "score": [columns.score],
        "text": [func.lower(columns.text)],
        "scope": [columns.company, columns.user_id, columns.agent],
    }
    keys = [*by[where.sort], columns.key]
    return [key.desc() if where.descending else key.asc() for key in keys]


def _entries() -> "Select[tuple[object, ...]]":
    joined = entries.outerjoin(note_types, note_types.c.name == entries.c.note_type)
    return select(entries, note_types.c.priority).select_from(joined)


def _columns(content: Content) -> dict[str, object]:
    whose = content.scope
    row: dict[str, object] = {
        "type": "",
        "note_type": "",
        "text": note_content.searched_text(content),
        "output": "",
        "score": None,
        "scope": scope.key(whose),
        "agent": whose.agent,
        "user_id": whose.user,
        "company": whose.company,
        "status": content.status,
        "expires_at": content.expires_at,
        "protection": content.protection,
        "digest": note_content.fingerprint(content),
    }
    if isinstance(content, NoteContent):
        return row | {"type": content.type, "note_type": content.note_type}
    return row | {"output": content.output, "score": content.score}


def _of_known_type(connection: Connection, content: C) -> C:
    if isinstance(content, ExampleContent):
        return content
    known = {one.name.lower(): one for one in types(connection)}
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
            content=note_content.content_json(entry),
        )
    )


def _entry(row: "Row[tuple[object, ...]]") -> Entry:
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
        "flags": tuple(Flag(*flag) for flag in row.flags),
        "created_at": row.created_at,
        "updated_at": row.updated_at,
    }
    if row.kind == "note":
        own = {"text": row.text, "type": row.type, "note_type": row.note_type}
        return Note(**own, **governed, **kept, priority=row.priority or 0)
    return Example(input=row.text, output=row.output, score=row.score, **governed, **kept)


def _note_type(row: "Row[tuple[object, ...]]") -> NoteType:
    return NoteType(**{name: getattr(row, name) for name in NoteType.__dataclass_fields__})
