"""Notes and their types: found, written, edited in place, approved and revoked."""

from typing import Annotated, Literal, get_args

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel

from app.web.entry_forms import NoteForm, NoteTypeForm
from app.web.pages import back, page
from contracts.errors import BadInput
from flows.library import notebook
from memory.errors import StaleUpdate
from memory.note_types import Note, ScopeKind, Sort, Status, Type, Where
from memory.notebook import Notebook

LISTED = 100

Order = Literal["updated", "created", "type", "status", "text", "scope"]

router = APIRouter()


class NoteFilter(BaseModel, frozen=True):
    """What the list is asked for; empty means all."""

    text: str = ""
    type: Type | Literal[""] = ""
    scope: ScopeKind | Literal[""] = ""
    status: Status | Literal[""] = ""
    sort: Order = "updated"
    page: int = 1

    def where(self) -> Where:
        """The same as the notebook knows it."""
        sort: Sort = self.sort
        return Where(
            text=self.text,
            type=self.type or None,
            scope_kind=self.scope or None,
            status=self.status or None,
            sort=sort,
            descending=sort in ("updated", "created"),
            limit=LISTED,
            offset=LISTED * (max(self.page, 1) - 1),
        )


@router.get("/notes")
def list_notes(request: Request, asked: Annotated[NoteFilter, Query()]) -> Response:
    """Notes that fit, a page at a time."""
    where = asked.where()
    with notebook() as opened:
        notes, total = opened.list("note", where), opened.count("note", where)
    values = {
        "entries": notes,
        "total": total,
        "first": where.offset + 1,
        "last": where.offset + len(notes),
        "asked": asked,
        "types": get_args(Type),
        "scopes": get_args(ScopeKind),
        "statuses": get_args(Status),
        "sorts": get_args(Order),
    }
    return page(request, "notes", values)


@router.get("/notes/new")
def new_note(request: Request, asked: Annotated[NoteForm, Query()]) -> Response:
    """The form for a note; the address may fill it."""
    with notebook() as opened:
        return _form(request, opened, asked)


@router.post("/notes")
def add_note(request: Request, form: Annotated[NoteForm, Form()]) -> Response:
    """Keep a new note."""
    with notebook() as opened:
        try:
            made = opened.add(form.content(), source_run=form.source_run or None)
        except BadInput as error:
            return _form(request, opened, form, refused=str(error))
    return back(request, f"/notes/{made.id}")


@router.post("/notes/status")
def set_status(
    request: Request,
    status: Annotated[Status, Form()],
    chosen: Annotated[tuple[str, ...], Form()] = (),
) -> Response:
    """Approve or revoke the chosen notes."""
    with notebook() as opened:
        for ref in chosen:
            opened.approve(ref) if status == "Active" else opened.revoke(ref)
    return back(request, "/notes")


@router.get("/notes/{ref}")
def show_note(request: Request, ref: str) -> Response:
    """One note with its history and what was found next to it."""
    with notebook() as opened:
        note = opened.get(ref, "note")
        values = {
            "one": note,
            "history": opened.history(note.id),
            "flagged": [(flag, _other(opened, flag.other)) for flag in note.flags],
        }
    return page(request, "note", values)


@router.get("/notes/{ref}/edit")
def edit_note(request: Request, ref: str) -> Response:
    """The form that changes it; in the list, in its place."""
    with notebook() as opened:
        note = opened.get(ref, "note")
        return _form(request, opened, _given(note), id_=note.id)


@router.post("/notes/{ref}")
def change_note(request: Request, ref: str, form: Annotated[NoteForm, Form()]) -> Response:
    """Keep the change; who was overtaken is told, with the own text still in the form."""
    with notebook() as opened:
        note = opened.get(ref, "note")
        try:
            opened.edit(form.changed(note))
        except (BadInput, StaleUpdate) as error:
            mine = form.model_copy(update={"version": note.version})
            return _form(request, opened, mine, id_=note.id, refused=str(error))
    return back(request, f"/notes/{note.id}")


@router.post("/notes/{ref}/undo")
def undo_note(request: Request, ref: str) -> Response:
    """Bring back what was there before the last change."""
    with notebook() as opened:
        opened.undo(ref)
    return back(request, f"/notes/{ref}")


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


def _form(
    request: Request, opened: Notebook, given: NoteForm, *, id_: str = "", refused: str = ""
) -> Response:
    values = {
        "id": id_,
        "given": given,
        "refused": refused,
        "types": get_args(Type),
        "statuses": get_args(Status),
        "note_types": opened.types.list(),
        "agents": opened.agents,
    }
    return page(request, "note_edit", values, status=409 if refused else 200)


def _given(note: Note) -> NoteForm:
    return NoteForm(
        text=note.text,
        type=note.type,
        note_type=note.note_type,
        agent=note.scope.agent or "",
        user=note.scope.user or "",
        company=note.scope.company or "",
        status=note.status,
        until=note.expires_at.date() if note.expires_at else None,
        protection=note.protection,
        source_run=note.source_run or "",
        version=note.version,
    )


def _other(opened: Notebook, ref: str) -> Note | None:
    try:
        return opened.get(ref, "note")
    except BadInput:
        return None  # it is gone since it was seen
