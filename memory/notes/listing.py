"""Lists of notes and examples: filtered, sorted, one page at a time."""

from sqlalchemy import ColumnElement, Connection, func, or_, select

from memory.notes.store import entry_from_row, select_entries
from memory.notes.tables import entries
from memory.notes.types import Entry, EntryFilter, EntryKind

_MAX_WORDS = 100
"""Words of a filter's text that are used: databases limit the parameters of a statement."""


def list_entries(connection: Connection, kind: EntryKind, where: EntryFilter) -> list[Entry]:
    """Return one page of the entries that match the filter, in its order."""
    query = select_entries().where(*_conditions(kind, where)).order_by(*_order(where))
    query = query.limit(where.limit).offset(where.offset)
    return [entry_from_row(row) for row in connection.execute(query)]


def count_entries(connection: Connection, kind: EntryKind, where: EntryFilter) -> int:
    """Return how many entries match the filter on all pages."""
    query = select(func.count()).select_from(entries).where(*_conditions(kind, where))
    return int(connection.execute(query).scalar_one())


def _conditions(kind: EntryKind, where: EntryFilter) -> list[ColumnElement[bool]]:
    columns = entries.c
    values = {
        "status": where.status,
        "type": where.type,
        "note_type": where.note_type,
        "agent": where.agent,
        "user_id": where.user,
        "company": where.company,
        "source_run": where.source_run,
        "author": where.author,
    }
    conditions = [columns[name] == value for name, value in values.items() if value is not None]
    scope_columns = {"agent": columns.agent, "user": columns.user_id, "company": columns.company}
    if where.scope_kind == "everyone":
        conditions += [column.is_(None) for column in scope_columns.values()]
    elif where.scope_kind is not None:
        conditions.append(scope_columns[where.scope_kind].is_not(None))
    if where.flagged is not None:
        has_none = func.length(func.cast(columns.flags, columns.text.type)) <= 2  # the JSON is []
        conditions.append(~has_none if where.flagged else has_none)
    for word in where.text.split()[:_MAX_WORDS]:
        texts = (columns.text, columns.output)
        conditions.append(or_(*(text.icontains(word, autoescape=True) for text in texts)))
    return [columns.kind == kind, *conditions]


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
