"""Notes: the newest change first."""

from typing import Annotated, Literal, get_args

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from app.web.entry_forms import EntryListQuery, NoteForm
from app.web.entry_pages import EntryPages, entry_list, entry_router
from memory.notes.notebook import Notebook
from memory.notes.types import BaseType, ScopeKind

Order = Literal["updated", "created", "type", "status", "text", "scope"]

router = APIRouter()


class NoteListQuery(EntryListQuery, frozen=True):
    """What the list of notes is asked for."""

    type: BaseType | Literal[""] = ""
    sort: Order = "updated"


@router.get("/notes")
def list_notes(request: Request, asked: Annotated[NoteListQuery, Query()]) -> Response:
    """Notes that fit, a page at a time."""
    values = {
        "asked": asked,
        "types": get_args(BaseType),
        "scopes": get_args(ScopeKind),
        "sorts": get_args(Order),
    }
    return entry_list(request, "note", asked.where(asked.sort, type_=asked.type or None), values)


def _asked(form: Annotated[NoteForm, Query()]) -> NoteForm:
    return form


def _choices(opened: Notebook) -> dict[str, object]:
    return {"types": get_args(BaseType), "note_types": opened.types.list()}


router.include_router(
    entry_router(
        EntryPages(
            kind="note",
            form=NoteForm,
            form_from_query=_asked,
            extra_values=lambda _: {},
            form_choices=_choices,
        )
    )
)
