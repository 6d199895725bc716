"""What a person should see beside a note or an example, until somebody has judged it.

Each function works within the transaction it is given, that of `note_generation.changing`.
"""

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import Connection, Text, cast, update

from memory.notes.store import entry_from_row, select_entries
from memory.notes.tables import entries
from memory.notes.types import Author, Entry, ReviewFlag


def add_flag(connection: Connection, entry: Entry, flag: ReviewFlag) -> None:
    """Have one more thing seen; its content stays as it is, so there is no new version."""
    _put(connection, entry, tuple(dict.fromkeys((*entry.flags, flag))))


def clear_after_review(connection: Connection, entry: Entry, author: Author) -> Entry:
    """The entry once somebody gave it its status.

    What a person approved has no flags any more; what is revoked is in nobody's way.
    """
    if entry.status == "Revoked":
        delete_flags_about(connection, entry)
    if entry.status != "Active" or author.kind != "person" or not entry.flags:
        return entry
    _put(connection, entry, ())
    return replace(entry, flags=())


def delete_flags_about(connection: Connection, other: Entry) -> None:
    """Drop every flag that names this one."""
    named = cast(entries.c.flags, Text).contains(other.id, autoescape=True)
    for row in connection.execute(select_entries().where(named)).all():
        entry = entry_from_row(row)
        _put(connection, entry, [flag for flag in entry.flags if flag.other != other.id])


def _put(connection: Connection, entry: Entry, flags: Sequence[ReviewFlag]) -> None:
    kept = [list(flag) for flag in flags]
    connection.execute(update(entries).where(entries.c.key == entry.key).values(flags=kept))
