"""Note types: listed, made, changed, forgotten."""

from typing import Annotated, get_args

from fastapi import APIRouter, Form, Request
from fastapi.responses import Response

from app.web.entry_forms import NoteTypeForm
from app.web.errors import FORM_ERRORS, NO_FORM_ERROR, FormError, form_error
from app.web.pages import redirect, render_page
from app.web.raw_form import RawForm, unvalidated_form
from flows.recall.library import configured_notebook
from memory.notes.notebook import Notebook
from memory.notes.types import BaseType

router = APIRouter()


@router.get("/note-types")
def list_note_types(request: Request) -> Response:
    """All note types, the most important first."""
    with configured_notebook() as opened:
        return _page(request, opened, NoteTypeForm())


@router.post("/note-types")
def put_note_type(request: Request, typed: RawForm) -> Response:
    """Keep a note type, over one of the same name."""
    with configured_notebook() as opened:
        try:
            opened.types.save(NoteTypeForm.model_validate(typed).note_type())
        except FORM_ERRORS as error:
            mine = unvalidated_form(NoteTypeForm, typed)
            return _page(request, opened, mine, refused=form_error(error))
    return redirect(request, "/note-types")


@router.post("/note-types/remove")
def remove_note_type(request: Request, name: Annotated[str, Form()]) -> Response:
    """Forget a note type of one's own."""
    with configured_notebook() as opened:
        opened.types.remove(name)
    return redirect(request, "/note-types")


def _page(
    request: Request, opened: Notebook, given: NoteTypeForm, *, refused: FormError = NO_FORM_ERROR
) -> Response:
    values = {
        "note_types": opened.types.list(),
        "types": get_args(BaseType),
        "given": given,
        "refused": refused.message,
    }
    return render_page(request, "note_types", values, status=refused.status)
