"""The table `entries`: playbooks, notes and examples, each with all versions of its content.

All kinds are created, changed, undone, imported and read by these functions, each within the
caller's transaction. A damaged row (edited by hand, or damaged on disk) is left out of lists and
searches, with one warning in the log. Reading strictly raises StoreCorrupt instead.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Literal, TypeVar
from uuid import uuid4

from pydantic import ValidationError
from sqlalchemy import Connection, Row, Select, delete, insert, select, update
from sqlalchemy.exc import IntegrityError, OperationalError

from memory.errors import EntryInvalid, EntryNotFound, StaleUpdate, StoreCorrupt
from memory.tables import entries, entry_versions
from memory.types import EntryVersion

Kind = Literal["playbook", "note", "example"]
Columns = Mapping[str, object]
EntrySelect = Select[tuple[object, ...]]
EntryRow = Row[tuple[object, ...]]

IS_PLAYBOOK = entries.c.kind == "playbook"

C = TypeVar("C")
E = TypeVar("E")

_log = logging.getLogger(__name__)


def insert_entry(
    connection: Connection, kind: Kind, columns: Columns, *, source: str, at: datetime
) -> int | None:
    """Insert an entry with its first version; return its key, or None if id or slug is taken.

    `columns` has the content and what is copied from it. Without an id it gets a new one, which is
    its slug too unless another is given.
    """
    id_ = columns.get("id") or str(uuid4())
    known = {"id": id_, "slug": id_, "kind": kind, "version": 1, "source": source}
    row = {**known, "created_at": at, "updated_at": at, **columns}
    try:
        # On Postgres a failed insert ends the transaction, unless a savepoint surrounds it.
        with connection.begin_nested():
            made = connection.execute(insert(entries).values(**row).returning(entries.c.key))
            key = int(made.scalar_one())
    except IntegrityError:
        return None
    _add_version(connection, key, row, source, at)
    return key


def change_entry(
    connection: Connection,
    key: int,
    columns: Columns,
    *,
    name: str,
    base: int,
    source: str,
    at: datetime,
    version: int | None = None,
) -> None:
    """Store the columns as the next version, or as `version` if that is higher.

    Raises:
        EntryNotFound: it was deleted.
        StaleUpdate: the stored version is not `base`; nothing is written.
    """
    row = {**columns, "version": max(base + 1, version or 0), "updated_at": at}
    unchanged = (entries.c.key == key, entries.c.version == base)
    if connection.execute(update(entries).where(*unchanged).values(**row)).rowcount != 1:
        now = connection.execute(select(entries.c.version).where(entries.c.key == key)).scalar()
        if now is None:
            raise EntryNotFound(f"{name} was deleted: your change was not saved")
        raise stale_update(name, base, now)
    _add_version(connection, key, row, source, at)


def stale_update(name: str, base: int, now: int) -> StaleUpdate:
    """Return the error for a change of version `base`."""
    return StaleUpdate(
        f"{name} is at version {now} now; your change is based on version {base} and was not "
        "saved. Read it again, then repeat your change"
    )


def restore_entry(
    connection: Connection, key: int, columns: Columns, past: Sequence[Columns]
) -> None:
    """Give a new entry the columns of an export, its version among them, and the exported past."""
    newest, of_entry = columns["version"], entry_versions.c.entry_key == key
    connection.execute(update(entries).where(entries.c.key == key).values(**columns))
    if any(row["version"] == newest for row in past):
        connection.execute(delete(entry_versions).where(of_entry))
    else:  # the export lacks the newest version: keep the one just made
        connection.execute(update(entry_versions).where(of_entry).values(version=newest))
    if past:
        connection.execute(insert(entry_versions), [{**row, "entry_key": key} for row in past])


def history(
    connection: Connection, key: int, parse: Callable[[object], C]
) -> list[EntryVersion[C]]:
    """Return every version of an entry, the newest first.

    Raises:
        StoreCorrupt: a version is damaged.
    """
    query = select(entry_versions).where(entry_versions.c.entry_key == key)
    found = []
    for row in connection.execute(query.order_by(entry_versions.c.version.desc())):
        try:
            content = parse(row.content)
        except (EntryInvalid, ValidationError) as error:
            place = f"version {row.version} of entry {key} in 'entry_versions'"
            raise StoreCorrupt(f"{place} is damaged: {error}") from error
        found.append(
            EntryVersion(version=row.version, at=row.at, source=row.source, content=content)
        )
    return found


def earlier_content(name: str, versions: Sequence[EntryVersion[C]], to: int | None = None) -> C:
    """Return the content of version `to`, or of the one before the newest.

    Raises:
        EntryInvalid: there is no such earlier version.
    """
    now, *past = versions
    if not past:
        raise EntryInvalid(f"{name} was never changed: there is nothing to undo")
    earlier = {version.version: version.content for version in past}
    content = earlier.get(past[0].version if to is None else to)
    if content is None:
        known = ", ".join(str(version) for version in sorted(earlier))
        raise EntryInvalid(
            f"{name} is at version {now.version} and has no earlier version {to}. Known: {known}"
        )
    return content


def read_entries(
    connection: Connection,
    query: EntrySelect,
    make: Callable[[EntryRow], E],
    values: Columns | None = None,
    *,
    strict: bool = False,
) -> list[E]:
    """Return the entries of a query, each made of its row."""
    found, damaged = check_entries(connection, query, make, values)
    if damaged and strict:
        raise damaged[0]
    for error in damaged:
        _warn_once(str(error))
    return found


def check_entries(
    connection: Connection,
    query: EntrySelect,
    make: Callable[[EntryRow], E],
    values: Columns | None = None,
) -> tuple[list[E], list[StoreCorrupt]]:
    """Return the entries of a query, and an error for each damaged row."""
    rows, damaged = _fetch(connection, query, values)
    found = []
    for row in rows:
        try:
            found.append(make(row))
        except (EntryInvalid, ValidationError) as error:
            damaged.append(_corrupt(row.key, row.id, error))
    return found, damaged


@cache
def _warn_once(message: str) -> None:
    _log.warning("left out: %s", message)


def _add_version(connection: Connection, key: int, row: Columns, source: str, at: datetime) -> None:
    values = {"version": row["version"], "at": at, "source": source, "content": row["content"]}
    connection.execute(insert(entry_versions).values(entry_key=key, **values))


def _fetch(
    connection: Connection, query: EntrySelect, values: Columns | None
) -> tuple[Sequence[EntryRow], list[StoreCorrupt]]:
    """Fetch all rows at once; only if one cannot be decoded, fetch them one by one."""
    try:
        return connection.execute(query, values).all(), []
    except (ValueError, OperationalError) as error:
        if not _is_about_a_value(error):
            raise
    rows: list[EntryRow] = []
    damaged: list[StoreCorrupt] = []
    names = query.with_only_columns(entries.c.key, entries.c.id)
    for key, id_ in connection.execute(names, values).all():
        try:
            rows += connection.execute(query.where(entries.c.key == key), values).all()
        except (ValueError, OperationalError) as error:
            if not _is_about_a_value(error):
                raise
            damaged.append(_corrupt(key, id_, error))
    return rows, damaged


def _is_about_a_value(error: Exception) -> bool:
    """Return True if a value is not JSON, a timestamp or UTF-8, rather than the database broken."""
    return isinstance(error, ValueError) or "decode to UTF-8" in str(error)


def _corrupt(key: int, id_: str, error: Exception) -> StoreCorrupt:
    reason = str(error).splitlines()[0][:200]
    return StoreCorrupt(
        f"entry {id_!r} cannot be read: row {key} of table 'entries' is damaged ({reason}). Repair "
        "the row, or delete the entry with the command `rm` of its kind"
    )
