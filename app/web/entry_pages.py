"""What the pages of notes and of examples share: written, edited in place, approved, undone."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, get_args

from fastapi import APIRouter, Depends, Form, Request
from fastapi.responses import Response

from app.web.entry_forms import EntryForm, changed
from app.web.pages import back, page
from contracts.errors import BadInput
from flows.library import notebook
from memory.errors import NoteNotFound, StaleUpdate
from memory.note_types import Entry, Kind, Status, Where
from memory.notebook import Notebook


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What the pages of one kind have of their own. Templates bear the kind's name."""

    kind: Kind
    posted: Callable[..., EntryForm]
    """How the form is read from what a browser sent."""
    asked: Callable[..., EntryForm]
    """How the form is filled from the address."""
    filled: Callable[[Entry], EntryForm]
    """The form with what is kept."""
    beside: Callable[[Entry], Mapping[str, object]]
    """What its page shows besides itself, what was found next to it, and its history."""
    choices: Callable[[Notebook], Mapping[str, object]]
    """What its form offers besides statuses and agents."""


def entry_router(shape: Shape) -> APIRouter:
    """The pages of one kind, but for its list."""
    root = f"/{shape.kind}s"
    router = APIRouter(prefix=root)

    @router.get("/new")
    def new(request: Request, form: Annotated[EntryForm, Depends(shape.asked)]) -> Response:
        """The form; the address may fill it."""
        with notebook() as opened:
            return _form(request, shape, opened, form)

    @router.post("")
    def add(request: Request, form: Annotated[EntryForm, Depends(shape.posted)]) -> Response:
        """Keep a new one."""
        with notebook() as opened:
            try:
                made = opened.add(form.content(), source_run=form.source_run or None)
            except BadInput as error:
                return _form(request, shape, opened, form, refused=str(error))
        return back(request, f"{root}/{made.id}")

    @router.post("/status")
    def set_status(
        request: Request,
        status: Annotated[Status, Form()],
        chosen: Annotated[tuple[str, ...], Form()] = (),
    ) -> Response:
        """Approve or revoke the chosen ones."""
        with notebook() as opened:
            for ref in chosen:
                opened.approve(ref) if status == "Active" else opened.revoke(ref)
        return back(request, root)

    @router.get("/{ref}")
    def show(request: Request, ref: str) -> Response:
        """One with its history."""
        with notebook() as opened:
            one = opened.get(ref, shape.kind)
            flagged = [(flag, _other(opened, flag.other, shape.kind)) for flag in one.flags]
            values = {"one": one, "history": opened.history(one.id), "flagged": flagged}
        return page(request, shape.kind, {**values, **shape.beside(one)})

    @router.get("/{ref}/edit")
    def edit(request: Request, ref: str) -> Response:
        """The form that changes it; in the list, in its place."""
        with notebook() as opened:
            one = opened.get(ref, shape.kind)
            return _form(request, shape, opened, shape.filled(one), id_=one.id)

    @router.post("/{ref}")
    def change(
        request: Request, ref: str, form: Annotated[EntryForm, Depends(shape.posted)]
    ) -> Response:
        """Keep the change; who was overtaken is told, with the own text still in the form."""
        with notebook() as opened:
            one = opened.get(ref, shape.kind)
            try:
                opened.edit(changed(one, form))
            except (BadInput, StaleUpdate) as error:
                mine = form.model_copy(update={"version": one.version})
                return _form(request, shape, opened, mine, id_=one.id, refused=str(error))
        return back(request, f"{root}/{one.id}")

    @router.post("/{ref}/undo")
    def undo(request: Request, ref: str) -> Response:
        """Bring back what was there before the last change."""
        with notebook() as opened:
            one = opened.undo(ref)
        return back(request, f"{root}/{one.id}")

    return router


def entry_list(
    request: Request, kind: Kind, where: Where, values: Mapping[str, object]
) -> Response:
    """The entries that fit, a page at a time."""
    with notebook() as opened:
        found, total = opened.list(kind, where), opened.count(kind, where)
    counted = {"total": total, "first": where.offset + 1, "last": where.offset + len(found)}
    statuses = {"statuses": get_args(Status)}
    return page(request, f"{kind}s", {"entries": found, **counted, **statuses, **values})


def _other(opened: Notebook, ref: str, kind: Kind) -> Entry | None:
    try:
        return opened.get(ref, kind)
    except NoteNotFound:
        return None  # it is gone since it was seen


def _form(
    request: Request,
    shape: Shape,
    opened: Notebook,
    given: EntryForm,
    *,
    id_: str = "",
    refused: str = "",
) -> Response:
    values = {
        "id": id_,
        "given": given,
        "refused": refused,
        "statuses": get_args(Status),
        "agents": opened.agents,
        **shape.choices(opened),
    }
    return page(request, f"{shape.kind}_edit", values, status=409 if refused else 200)
