"""What the pages of notes and of examples share: written, edited in place, approved, undone."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Literal, get_args

from fastapi import APIRouter, Depends, Form, Request
from fastapi.responses import Response

from app.web.entry_forms import EntryForm, ExampleForm, NoteForm, apply_form
from app.web.errors import FORM_ERRORS, NO_FORM_ERROR, FormError, form_error
from app.web.pages import redirect, render_page
from app.web.raw_form import RawForm, SeenVersion, unvalidated_form
from app.web.selection import SelectedVersions, change_selected
from flows.recall.library import configured_notebook
from memory.errors import NoteNotFound, StaleUpdate
from memory.notes.content import searchable_text
from memory.notes.notebook import Notebook
from memory.notes.types import Entry, EntryFilter, EntryKind, EntryStatus


@dataclass(frozen=True, kw_only=True)
class EntryPages:
    """What the pages of one kind have of their own. Templates bear the kind's name."""

    kind: EntryKind
    form: type[NoteForm] | type[ExampleForm]
    """The form as a browser sends it."""
    form_from_query: Callable[..., EntryForm]
    """How the form is filled from the address."""
    extra_values: Callable[[Entry], Mapping[str, object]]
    """What its page shows besides itself, what was found next to it, and its history."""
    form_choices: Callable[[Notebook], Mapping[str, object]]
    """What its form offers besides statuses and agents."""


def entry_router(shape: EntryPages) -> APIRouter:
    """The pages of one kind, but for its list."""
    root = f"/{shape.kind}s"
    router = APIRouter(prefix=root)

    @router.get("/new")
    def new(
        request: Request, form: Annotated[EntryForm, Depends(shape.form_from_query)]
    ) -> Response:
        """The form; the address may fill it."""
        with configured_notebook() as opened:
            return _form(request, shape, opened, form)

    @router.post("")
    def add(request: Request, typed: RawForm) -> Response:
        """Keep a new one."""
        with configured_notebook() as opened:
            try:
                form = shape.form.model_validate(typed)
                made = opened.add(form.content(), source_run=form.source_run or None)
            except FORM_ERRORS as error:
                mine = unvalidated_form(shape.form, typed)
                return _form(request, shape, opened, mine, refused=form_error(error))
        return redirect(request, f"{root}/{made.id}")

    @router.post("/status")
    def set_status(
        request: Request,
        status: Annotated[Literal["Active", "Revoked"], Form()],
        chosen: SelectedVersions = (),
    ) -> Response:
        """Approve or revoke those of the chosen ones that nobody changed since."""
        with configured_notebook() as opened:
            judge = partial(_judge, opened, shape.kind, status)
            change_selected(chosen, judge, lambda ref: searchable_text(opened.get(ref)))
        return redirect(request, root)

    @router.get("/{ref}")
    def show(request: Request, ref: str) -> Response:
        """One with its history."""
        with configured_notebook() as opened:
            one = opened.get(ref, shape.kind)
            flagged = [(flag, _other(opened, flag.other, shape.kind)) for flag in one.flags]
            values = {"one": one, "history": opened.history(one.id), "flagged": flagged}
        return render_page(request, shape.kind, {**values, **shape.extra_values(one)})

    @router.get("/{ref}/edit")
    def edit(request: Request, ref: str) -> Response:
        """The form that changes it; in the list, in its place."""
        with configured_notebook() as opened:
            one = opened.get(ref, shape.kind)
            return _form(request, shape, opened, shape.form.of(one), id_=one.id)

    @router.post("/{ref}")
    def change(request: Request, ref: str, typed: RawForm) -> Response:
        """Keep the change; a person who was overtaken is told, and keeps their text in the form."""
        with configured_notebook() as opened:
            one = opened.get(ref, shape.kind)
            try:
                opened.edit(apply_form(one, shape.form.model_validate(typed)))
            except FORM_ERRORS as error:
                seen = {"version": str(one.version)} if isinstance(error, StaleUpdate) else {}
                mine = unvalidated_form(shape.form, {**typed, **seen})
                return _form(request, shape, opened, mine, id_=one.id, refused=form_error(error))
        return redirect(request, f"{root}/{one.id}")

    @router.post("/{ref}/undo")
    def undo(request: Request, ref: str, version: Annotated[SeenVersion, Form()]) -> Response:
        """Bring back what was there before the last change, if that is the one that was seen."""
        with configured_notebook() as opened:
            one = opened.undo(ref, seen=version)
        return redirect(request, f"{root}/{one.id}")

    return router


def entry_list(
    request: Request, kind: EntryKind, where: EntryFilter, values: Mapping[str, object]
) -> Response:
    """The entries that fit, a page at a time."""
    with configured_notebook() as opened:
        found, total = opened.list(kind, where), opened.count(kind, where)
    counted = {"total": total, "first": where.offset + 1, "last": where.offset + len(found)}
    statuses = {"statuses": get_args(EntryStatus)}
    return render_page(request, f"{kind}s", {"entries": found, **counted, **statuses, **values})


def _judge(opened: Notebook, kind: EntryKind, status: EntryStatus, ref: str, version: int) -> None:
    one = opened.get(ref, kind)
    if (one.status, one.version) != (status, version):
        opened.edit(replace(one, status=status, version=version))
    elif status == "Active":
        opened.approve(ref)  # what was Active already may have flags to settle


def _other(opened: Notebook, ref: str, kind: EntryKind) -> Entry | None:
    try:
        return opened.get(ref, kind)
    except NoteNotFound:
        return None  # it is gone since it was seen


def _form(
    request: Request,
    shape: EntryPages,
    opened: Notebook,
    given: EntryForm,
    *,
    id_: str = "",
    refused: FormError = NO_FORM_ERROR,
) -> Response:
    values = {
        "id": id_,
        "given": given,
        "refused": refused.message,
        "statuses": get_args(EntryStatus),
        "agents": opened.agents,
        **shape.form_choices(opened),
    }
    return render_page(request, f"{shape.kind}_edit", values, status=refused.status)
