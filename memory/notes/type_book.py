"""The note types of a notebook: the standard ones, and those of one's own."""

from collections.abc import Sequence

from sqlalchemy import Engine

from memory.database import read_transaction
from memory.notes import content, type_store
from memory.notes.generation import notebook_transaction
from memory.notes.types import NoteType


class NoteTypes:
    """Keeps note types; each gives its notes their priority."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def list(self) -> Sequence[NoteType]:
        """All note types, the most important first."""
        with read_transaction(self._engine) as connection:
            return type_store.list_note_types(connection)

    def save(self, wanted: NoteType) -> NoteType:
        """Keep a note type, over one of the same name in whatever case; gives it as it is kept.

        The standard ones keep their type.

        Raises:
            NoteInvalid: what is wrong with it.
        """
        wanted = content.check_note_type(wanted)
        with notebook_transaction(self._engine) as connection:
            return type_store.save_note_type(connection, wanted)

    def remove(self, name: str) -> None:
        """Forget a note type of one's own that no note has.

        Raises:
            NoteInvalid: there is none, it is a standard one, or it is in use.
        """
        with notebook_transaction(self._engine) as connection:
            type_store.delete_note_type(connection, name)
