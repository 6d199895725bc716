"""Note types: five standard ones, and the user's own. Each gives its notes a priority."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection, Engine, delete, func, insert, select, update

from memory.database import read_transaction
from memory.errors import NoteInvalid
from memory.notes.content import check_note_type
from memory.notes.tables import entries, note_types, notebook_transaction
from memory.notes.types import NoteType


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
        """Store a note type, replacing one with the same name in any case; return what is stored.

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
