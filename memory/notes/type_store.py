"""The truth about note types: each function works within the transaction it is given.

One that writes is given that of `note_generation.changing`.
"""

from dataclasses import replace

from sqlalchemy import Connection, Row, delete, func, insert, select, update

from memory.errors import NoteInvalid
from memory.notes.tables import entries, note_types
from memory.notes.types import NoteType


def list_note_types(connection: Connection) -> list[NoteType]:
    """All note types, the most important first."""
    order = (note_types.c.priority.desc(), note_types.c.name)
    return [_note_type(row) for row in connection.execute(select(note_types).order_by(*order))]


def save_note_type(connection: Connection, wanted: NoteType) -> NoteType:
    """Keep a note type, over one of the same name in whatever case; gives it as it is kept.

    Raises:
        NoteInvalid: it is a standard one, and another type is wanted of it.
    """
    same = (one for one in list_note_types(connection) if one.name.lower() == wanted.name.lower())
    old = next(same, None)
    wanted = replace(
        wanted, name=old.name if old else wanted.name, standard=bool(old and old.standard)
    )
    if old is not None and old.standard and old.type != wanted.type:
        raise NoteInvalid(f"note type {old.name!r} is a standard one: its type stays {old.type}")
    connection.execute(delete(note_types).where(note_types.c.name == wanted.name))
    connection.execute(insert(note_types).values(**vars(wanted)))
    connection.execute(
        update(entries).where(entries.c.note_type == wanted.name).values(type=wanted.type)
    )
    return wanted


def delete_note_type(connection: Connection, name: str) -> None:
    """Forget a note type that no note has.

    Raises:
        NoteInvalid: there is no such type, it is a standard one, or notes have it.
    """
    old = next((one for one in list_note_types(connection) if one.name == name), None)
    if old is None or old.standard:
        why = "not known" if old is None else "a standard one"
        raise NoteInvalid(f"note type {name!r} is {why}: only types of your own can be removed")
    used = select(func.count()).select_from(entries).where(entries.c.note_type == name)
    if number := connection.execute(used).scalar_one():
        raise NoteInvalid(f"note type {name!r} is still that of {number} notes: change them first")
    connection.execute(delete(note_types).where(note_types.c.name == name))


def _note_type(row: "Row[tuple[object, ...]]") -> NoteType:
    return NoteType(**{name: getattr(row, name) for name in NoteType.__dataclass_fields__})
