"""SQL statements that read and write notes and examples, each within the caller's transaction.

Functions that write need the connection of `notebook_transaction`. `NoteTypes` stores the
categories of notes: five standard ones, and the user's own.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, replace
from datetime import datetime

from sqlalchemy import Connection, Engine, Text, cast, delete, func, insert, select, update

from memory.content import sanitize_text
from memory.database import lock_until_commit, read_transaction, write_transaction
from memory.entries import (
    IS_PLAYBOOK,
    EntryRow,
    EntrySelect,
    change_entry,
    earlier_content,
    history,
    insert_entry,
    read_entries,
)
from memory.errors import EntryInvalid, EntryNotFound
from memory.indexing import index_entries
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
    Example,
    ExampleContent,
    Note,
    NoteContent,
    NoteType,
    ReviewFlag,
)
from memory.scope import scope_key
from memory.tables import entries, note_types
from memory.types import EntryVersion

PERSON = Author("person")

_RECORD_FIELDS = (
    *("id", "key", "version", "source_run", "confidence", "evidence"),
    *("created_at", "updated_at"),
)


@contextmanager
def notebook_transaction(engine: Engine) -> Iterator[Connection]:
    """Yield the connection of a transaction that writes to the notebook.

    Only one such transaction runs at a time, on Postgres too: otherwise two could each miss what
    the other writes.
    """
    with write_transaction(engine) as connection:
        lock_until_commit(connection, "notebook")
        yield connection


def insert_note(
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
        EntryInvalid: its note type is unknown, or has another base type.
    """
    content = _with_known_note_type(connection, content)
    columns = {
        **note_columns(content),
        "confidence": confidence,
        "flags": [astuple(flag) for flag in flags],
        "evidence": sanitize_text(evidence),
        "source_run": source_run,
    }
    key = insert_entry(connection, kind_of(content), columns, source=author.label, at=at) or 0
    index_entries(connection, [key])
    return entries_by_key(connection, [key])[key]


def get_entry(connection: Connection, ref: str, kind: EntryKind | None = None) -> Entry:
    """Return the entry with this id, or with an id that begins with these six or more characters.

    Raises:
        EntryNotFound: there is none, or several ids begin so.
        StoreCorrupt: its row is damaged.
    """
    described = kind or "note or example"
    query = select_entries(kind).where(entries.c.id.startswith(ref, autoescape=True)).limit(2)
    # Many ids share a shorter start, and the next entry may take it.
    found = read_entries(connection, query, _entry, strict=True) if len(ref) >= 6 else []
    if len(found) > 1:
        raise EntryNotFound(f"more than one {described} has an id that begins with {ref!r}")
    if not found:
        raise EntryNotFound(f"no {described} {ref!r}: `harness {kind or 'note'}s list` shows all")
    return found[0]


def read_notes(connection: Connection, query: EntrySelect, *, strict: bool = False) -> list[Entry]:
    """Return the notes and examples of a query that `select_entries` began."""
    return read_entries(connection, query, _entry, strict=strict)


def entries_by_key(connection: Connection, keys: Sequence[int]) -> dict[int, Entry]:
    """Return the entries that exist among `keys`."""
    query = select_entries().where(entries.c.key.in_(keys))
    return {one.key: one for one in read_notes(connection, query)}


def exact_duplicates(connection: Connection, content: EntryContent) -> list[Entry]:
    """Return the entries of the same scope whose text has the same digest, the oldest first."""
    query = select_entries(kind_of(content)).where(
        entries.c.digest == content_digest(content), entries.c.scope == scope_key(content.scope)
    )
    return read_notes(connection, query.order_by(entries.c.key))


def update_note(
    connection: Connection,
    wanted: Entry,
    *,
    author: Author,
    at: datetime,
    version: int | None = None,
) -> Entry:
    """Store the content of `wanted` as a new version, if `wanted.version` is still the latest.

    Raises:
        EntryInvalid: its note type is unknown, or has another base type.
        EntryNotFound: it was removed.
        StaleUpdate: it was changed since; nothing is written.
    """
    wanted = _with_known_note_type(connection, wanted)
    change_entry(
        connection,
        wanted.key,
        note_columns(wanted),
        name=f"{kind_of(wanted)} {wanted.id}",
        base=wanted.version,
        source=author.label,
        at=at,
        version=version,
    )
    index_entries(connection, [wanted.key])
    return entries_by_key(connection, [wanted.key])[wanted.key]


def note_history(connection: Connection, key: int) -> list[EntryVersion[EntryContent]]:
    """Return every version, the newest first."""
    return history(connection, key, entry_content_from_json)


def previous_content(connection: Connection, entry: Entry) -> EntryContent:
    """Return the content before the last change, with the present base type of its note type.

    Raises:
        EntryInvalid: it was never changed.
    """
    content = earlier_content(entry.id, note_history(connection, entry.key))
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
    for entry in read_notes(connection, select_entries().where(names_it)):
        put_flags(connection, entry, [flag for flag in entry.flags if flag.other != other.id])


def select_entries(kind: EntryKind | None = None) -> EntrySelect:
    """Return a query for all notes and examples, each with the priority of its note type."""
    joined = entries.outerjoin(note_types, note_types.c.name == entries.c.category)
    of_kind = ~IS_PLAYBOOK if kind is None else entries.c.kind == kind
    return select(entries, note_types.c.priority).select_from(joined).where(of_kind)


def _entry(row: EntryRow) -> Entry:
    fields = row._asdict()
    shared = {name: fields[name] for name in _RECORD_FIELDS} | {
        "author": Author.from_label(row.source),
        "flags": tuple(ReviewFlag(*flag) for flag in row.flags),
    }
    content = entry_content_from_json(row.content)
    if isinstance(content, NoteContent):
        # The base type is that of the note type, which may have changed since.
        return Note(**{**vars(content), **shared, "type": row.type}, priority=row.priority or 0)
    return Example(**vars(content), **shared)


def note_columns(content: EntryContent) -> dict[str, object]:
    """Return what the table of entries holds of the content."""
    scope = content.scope
    row: dict[str, object] = {
        "content": entry_content_json(content),
        "text": searchable_text(content),
        "scope": scope_key(scope),
        "agent": scope.agent,
        "user_id": scope.user,
        "company": scope.company,
        "status": content.status,
        "expires_at": content.expires_at,
        "digest": content_digest(content),
    }
    if isinstance(content, NoteContent):
        return row | {"type": content.type, "category": content.note_type}
    return row | {"output": content.output, "score": content.score}


def _with_known_note_type(connection: Connection, content: C) -> C:
    if isinstance(content, ExampleContent):
        return content
    known = {one.name.lower(): one for one in list_note_types(connection)}
    found = known.get(content.note_type.lower())
    if found is None:
        names = ", ".join(one.name for one in known.values())
        raise EntryInvalid(f"no note type {content.note_type!r}; there are {names}")
    if found.type != content.type:
        raise EntryInvalid(
            f"note type {found.name!r} is for notes of type {found.type}, not {content.type}"
        )
    return replace(content, note_type=found.name)


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
            EntryInvalid: it is not valid, or would change the base type of a standard type.
        """
        wanted = check_note_type(wanted)
        with notebook_transaction(self.engine) as connection:
            old = _find(connection, wanted.name)
            if old is not None:
                wanted = replace(wanted, name=old.name, standard=old.standard)
            if old is not None and old.standard and old.type != wanted.type:
                raise EntryInvalid(
                    f"note type {old.name!r} is a standard one: its type stays {old.type}"
                )
            connection.execute(delete(note_types).where(note_types.c.name == wanted.name))
            connection.execute(insert(note_types).values(**vars(wanted)))
            of_type = (entries.c.kind == "note", entries.c.category == wanted.name)
            connection.execute(update(entries).where(*of_type).values(type=wanted.type))
        return wanted

    def remove(self, name: str) -> None:
        """Delete one of the user's own note types.

        Raises:
            EntryInvalid: it does not exist, is a standard one, or notes have it.
        """
        with notebook_transaction(self.engine) as connection:
            old = _find(connection, name)
            if old is None or old.name != name or old.standard:
                why = "a standard one" if old and old.standard else "not known"
                raise EntryInvalid(
                    f"note type {name!r} is {why}: only types of your own can be removed"
                )
            used = select(func.count()).select_from(entries)
            used = used.where(entries.c.kind == "note", entries.c.category == name)
            if number := connection.execute(used).scalar_one():
                raise EntryInvalid(
                    f"note type {name!r} is still used by {number} notes: change them first"
                )
            connection.execute(delete(note_types).where(note_types.c.name == name))


def _find(connection: Connection, name: str) -> NoteType | None:
    same = (one for one in list_note_types(connection) if one.name.lower() == name.lower())
    return next(same, None)
