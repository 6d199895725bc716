"""Examples: pairs of input and output, found, written, edited, approved and revoked."""

from typing import Annotated, Literal, get_args

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel

from app.web.entry_forms import ExampleForm
from app.web.pages import back, page
from contracts.errors import BadInput
from flows.library import notebook
from memory.errors import StaleUpdate
from memory.note_render import show_example
from memory.note_types import Example, ScopeKind, Status, Where
from memory.notebook import Notebook

LISTED = 100

Order = Literal["score", "updated", "created", "status", "scope"]

router = APIRouter(prefix="/examples")


class ExampleFilter(BaseModel, frozen=True):
    """What the list is asked for; empty means all."""

    text: str = ""
    scope: ScopeKind | Literal[""] = ""
    status: Status | Literal[""] = ""
    sort: Order = "score"
    page: int = 1

    def where(self) -> Where:
        """The same as the notebook knows it."""
        return Where(
            text=self.text,
            scope_kind=self.scope or None,
            status=self.status or None,
            sort=self.sort,
            descending=self.sort in ("score", "updated", "created"),
            limit=LISTED,
            offset=LISTED * (max(self.page, 1) - 1),
        )


@router.get("")
def list_examples(request: Request, asked: Annotated[ExampleFilter, Query()]) -> Response:
    """Examples that fit, a page at a time."""
    where = asked.where()
    with notebook() as opened:
        examples, total = opened.list("example", where), opened.count("example", where)
    values = {
        "entries": examples,
        "total": total,
        "first": where.offset + 1,
        "last": where.offset + len(examples),
        "asked": asked,
        "scopes": get_args(ScopeKind),
        "statuses": get_args(Status),
        "sorts": get_args(Order),
    }
    return page(request, "examples", values)


@router.get("/new")
def new_example(request: Request, asked: Annotated[ExampleForm, Query()]) -> Response:
    """The form for an example; the address may fill it."""
    with notebook() as opened:
        return _form(request, opened, asked)


@router.post("")
def add_example(request: Request, form: Annotated[ExampleForm, Form()]) -> Response:
    """Keep a new example."""
    with notebook() as opened:
        try:
            made = opened.add(form.content(), source_run=form.source_run or None)
        except BadInput as error:
            return _form(request, opened, form, refused=str(error))
    return back(request, f"/examples/{made.id}")


@router.post("/status")
def set_status(
    request: Request,
    status: Annotated[Status, Form()],
    chosen: Annotated[tuple[str, ...], Form()] = (),
) -> Response:
    """Approve or revoke the chosen examples."""
    with notebook() as opened:
        for ref in chosen:
            opened.approve(ref) if status == "Active" else opened.revoke(ref)
    return back(request, "/examples")


@router.get("/{ref}")
def show(request: Request, ref: str) -> Response:
    """One example with its history, and as a prompt holds it."""
    with notebook() as opened:
        one = opened.get(ref, "example")
        history = opened.history(one.id)
    values = {"one": one, "history": history, "in_a_prompt": show_example(one)}
    return page(request, "example", values)


@router.get("/{ref}/edit")
def edit_example(request: Request, ref: str) -> Response:
    """The form that changes it."""
    with notebook() as opened:
        one = opened.get(ref, "example")
        return _form(request, opened, _given(one), id_=one.id)


@router.post("/{ref}")
def change_example(request: Request, ref: str, form: Annotated[ExampleForm, Form()]) -> Response:
    """Keep the change; who was overtaken is told, with the own text still in the form."""
    with notebook() as opened:
        one = opened.get(ref, "example")
        try:
            opened.edit(form.changed(one))
        except (BadInput, StaleUpdate) as error:
            mine = form.model_copy(update={"version": one.version})
            return _form(request, opened, mine, id_=one.id, refused=str(error))
    return back(request, f"/examples/{one.id}")


@router.post("/{ref}/undo")
def undo_example(request: Request, ref: str) -> Response:
    """Bring back what was there before the last change."""
    with notebook() as opened:
        opened.undo(ref)
    return back(request, f"/examples/{ref}")


def _form(
    request: Request, opened: Notebook, given: ExampleForm, *, id_: str = "", refused: str = ""
) -> Response:
    values = {
        "id": id_,
        "given": given,
        "refused": refused,
        "statuses": get_args(Status),
        "agents": opened.agents,
    }
    return page(request, "example_edit", values, status=409 if refused else 200)


def _given(one: Example) -> ExampleForm:
    return ExampleForm(
        input=one.input,
        output=one.output,
        score=one.score,
        source_run=one.source_run or "",
        agent=one.scope.agent or "",
        user=one.scope.user or "",
        company=one.scope.company or "",
        status=one.status,
        until=one.expires_at.date() if one.expires_at else None,
        protection=one.protection,
        version=one.version,
    )
