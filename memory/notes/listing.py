"""Lists of notes and examples: filtered, sorted, a page at a time."""

from sqlalchemy import ColumnElement, Connection, func, or_, select

from memory.notes.store import entry_from_row, select_entries
from memory.notes.tables import entries
from memory.notes.types import Entry, EntryFilter, EntryKind

_MOST_WORDS = 100


def list_entries(connection: Connection, kind: EntryKind, where: EntryFilter) -> list[Entry]:
    """Entries in the order that is asked for."""
    query = select_entries().where(*conditions(kind, where)).order_by(*_order(where))
    query = query.limit(where.limit).offset(where.offset)
    return [entry_from_row(row) for row in connection.execute(query)]


def count_entries(connection: Connection, kind: EntryKind, where: EntryFilter) -> int:
    """How many entries there are, whatever the limit."""
    query = select(func.count()).select_from(entries).where(*conditions(kind, where))
    return int(connection.execute(query).scalar_one())


def conditions(kind: EntryKind, where: EntryFilter) -> list[ColumnElement[bool]]:
    """The filter as SQL; of a text its first words count, as many as every database takes."""
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
    for word in where.text.split()[:_MOST_WORDS]:
        either = (columns.text, columns.output)
        wanted.append(or_(*(text.icontains(word, autoescape=True) for text in either)))
    return [columns.kind == kind, *wanted]


def _of_scope_kind(where: EntryFilter) -> list[ColumnElement[bool]]:
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


def _order(where: EntryFilter) -> list[ColumnElement[object]]:
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
