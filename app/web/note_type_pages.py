"""Note types: listed, made, changed, forgotten."""

from typing import Annotated, get_args

from fastapi import APIRouter, Form, Request
from fastapi.responses import Response

from app.web.entry_forms import NoteTypeForm
from app.web.pages import back, page
from flows.library import notebook
from memory.note_types import Type

router = APIRouter()


@router.get("/note-types")
def list_note_types(request: Request) -> Response:
    """All note types, the most important first."""
    with notebook() as opened:
        values = {"note_types": opened.types.list(), "types": get_args(Type), "refused": ""}
    return page(request, "note_types", values)


@router.post("/note-types")
def put_note_type(request: Request, form: Annotated[NoteTypeForm, Form()]) -> Response:
    """Keep a note type, over one of the same name."""
    with notebook() as opened:
        opened.types.put(form.wanted())
    return back(request, "/note-types")


@router.post("/note-types/remove")
def remove_note_type(request: Request, name: Annotated[str, Form()]) -> Response:
    """Forget a note type of one's own."""
    with notebook() as opened:
        opened.types.remove(name)
    return back(request, "/note-types")
