"""Pages of notes, examples and note types."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Literal, get_args

from fastapi import APIRouter, Form, Request
from fastapi.responses import Response

from app.web.entry_forms import EntryForm, EntryQuery, ExampleForm, NoteForm, NoteTypeForm
from app.web.forms import (
    FORM_ERRORS,
    NO_FORM_ERROR,
    FormError,
    RawForm,
    SeenVersion,
    SelectedVersions,
    change_selected,
    form_error,
    from_query,
    list_address,
    unvalidated_form,
)
from app.web.pages import redirect, render_page
from flows.recall.library import configured_notebook
from memory.errors import EntryNotFound
from memory.notes.content import searchable_text
from memory.notes.injection import render_example
from memory.notes.notebook import Notebook
from memory.notes.types import BaseType, Entry, EntryKind, EntryStatus, Example, ScopeKind


class NoteQuery(EntryQuery, frozen=True):
    """Filter of the list of notes."""

    sort: Literal["updated", "created", "type", "status", "text", "scope"] = "updated"


class ExampleQuery(EntryQuery, frozen=True):
    """Filter of the list of examples."""

    type: Literal[""] = ""
    sort: Literal["score", "updated", "created", "status", "scope"] = "score"


@dataclass(frozen=True, kw_only=True)
class EntryPages:
    """The differences between the pages of notes and those of examples."""

    kind: EntryKind
    """Part of the addresses and of the templates' names."""
    form: type[EntryForm]
    query: type[EntryQuery]
    extra_values: Callable[[Entry], Mapping[str, object]]
    """More values for the page of one entry."""
    form_choices: Callable[[Notebook], Mapping[str, object]]
    """More choices for the form."""


def _note_choices(book: Notebook) -> dict[str, object]:
    return {"types": get_args(BaseType), "note_types": book.types.list()}


def _example_values(entry: Entry) -> dict[str, object]:
    return {"in_a_prompt": render_example(entry) if isinstance(entry, Example) else ""}


NOTES = EntryPages(
    kind="note",
    form=NoteForm,
    query=NoteQuery,
    extra_values=lambda _: {},
    form_choices=_note_choices,
)
EXAMPLES = EntryPages(
    kind="example",
    form=ExampleForm,
    query=ExampleQuery,
    extra_values=_example_values,
    form_choices=lambda _: {},
)


def entry_router(pages: EntryPages) -> APIRouter:
    """Return the routes of all pages of one kind of entry."""
    kind, root = pages.kind, f"/{pages.kind}s"
    router = APIRouter(prefix=root)

    @router.get("")
    def list_entries(request: Request) -> Response:
        """Return a page of the entries that match."""
        query = from_query(pages.query, request)
        where = query.where()
        with configured_notebook() as book:
            found, total = book.list(kind, where), book.count(kind, where)
        values = {
            "entries": found,
            "total": total,
            "first": where.offset + 1,
            "last": where.offset + len(found),
            "asked": query,
            "done": request.query_params.get("done", "")[:100],
            "statuses": get_args(EntryStatus),
            "scopes": get_args(ScopeKind),
            "types": get_args(BaseType),
            "sorts": get_args(pages.query.model_fields["sort"].annotation),
        }
        return render_page(request, f"{kind}s", values)

    @router.get("/new")
    def new(request: Request) -> Response:
        """Return the form of a new entry, filled with the query of the address."""
        with configured_notebook() as book:
            return _form(request, pages, book, from_query(pages.form, request))

    @router.post("")
    def add(request: Request, raw: RawForm) -> Response:
        """Add an entry."""
        with configured_notebook() as book:
            try:
                form = pages.form.model_validate(raw)
                made = book.add(form.content(), source_run=form.source_run or None)
            except FORM_ERRORS as error:
                typed = unvalidated_form(pages.form, raw, error)
                return _form(request, pages, book, typed, refused=form_error(error))
        return redirect(request, f"{root}/{made.id}")

    @router.post("/status")
    def set_status(
        request: Request,
        status: Annotated[Literal["Active", "Revoked"], Form()],
        chosen: SelectedVersions = (),
        back: Annotated[str, Form(max_length=4_000)] = "",
    ) -> Response:
        """Approve or revoke the selected entries that still have the displayed version."""
        with configured_notebook() as book:
            change = partial(_set_status, book, kind, status)
            number = change_selected(chosen, change, lambda ref: searchable_text(book.get(ref)))
        done = f"{number} {'approved' if status == 'Active' else 'revoked'}"
        return redirect(request, list_address(root, pages.query, back, done))

    @router.get("/{ref}")
    def show(request: Request, ref: str) -> Response:
        """Return the page of one entry with its history."""
        with configured_notebook() as book:
            entry = book.get(ref, kind)
            flagged = [(flag, _find(book, flag.other, kind)) for flag in entry.flags]
            values = {"one": entry, "history": book.history(entry.id), "flagged": flagged}
        return render_page(request, kind, {**values, **pages.extra_values(entry)})

    _add_changes(router, pages)
    return router


def _add_changes(router: APIRouter, pages: EntryPages) -> None:
    """Add the routes that change one entry."""
    kind, root = pages.kind, f"/{pages.kind}s"

    @router.get("/{ref}/edit")
    def edit(request: Request, ref: str) -> Response:
        """Return the form that changes an entry; htmx shows it in the row of the list."""
        with configured_notebook() as book:
            entry = book.get(ref, kind)
            return _form(request, pages, book, pages.form.of(entry), id_=entry.id)

    @router.post("/{ref}")
    def change(request: Request, ref: str, raw: RawForm) -> Response:
        """Save a change; after an error the form keeps the typed values."""
        with configured_notebook() as book:
            entry = book.get(ref, kind)
            try:
                book.edit(pages.form.model_validate(raw).apply(entry))
            except FORM_ERRORS as error:
                typed = unvalidated_form(pages.form, raw, error, entry.version)
                refused = form_error(error)
                return _form(request, pages, book, typed, id_=entry.id, refused=refused)
        return redirect(request, f"{root}/{entry.id}")

    @router.post("/{ref}/delete")
    def delete(request: Request, ref: str, version: Annotated[SeenVersion, Form()]) -> Response:
        """Delete an entry if it has the displayed version."""
        with configured_notebook() as book:
            book.remove(book.get(ref, kind).id, seen=version)
        return redirect(request, list_address(root, pages.query, "", "1 deleted"))

    @router.post("/{ref}/undo")
    def undo(request: Request, ref: str, version: Annotated[SeenVersion, Form()]) -> Response:
        """Undo the last change if it is the displayed one."""
        with configured_notebook() as book:
            entry = book.undo(ref, seen=version)
        return redirect(request, f"{root}/{entry.id}")


router = APIRouter()
router.include_router(entry_router(NOTES))
router.include_router(entry_router(EXAMPLES))


@router.get("/note-types")
def list_note_types(request: Request) -> Response:
    """Return all note types, the highest priority first."""
    with configured_notebook() as book:
        return _note_types(request, book, NoteTypeForm())


@router.post("/note-types")
def save_note_type(request: Request, raw: RawForm) -> Response:
    """Add a note type, or change the one with this name."""
    with configured_notebook() as book:
        try:
            book.types.save(NoteTypeForm.model_validate(raw).note_type())
        except FORM_ERRORS as error:
            typed = unvalidated_form(NoteTypeForm, raw, error)
            return _note_types(request, book, typed, refused=form_error(error))
    return redirect(request, "/note-types")


@router.post("/note-types/remove")
def remove_note_type(request: Request, name: Annotated[str, Form()]) -> Response:
    """Delete a note type of the user."""
    with configured_notebook() as book:
        book.types.remove(name)
    return redirect(request, "/note-types")


def _note_types(
    request: Request, book: Notebook, form: NoteTypeForm, *, refused: FormError = NO_FORM_ERROR
) -> Response:
    values = {
        "note_types": book.types.list(),
        "types": get_args(BaseType),
        "given": form,
        "refused": refused.message,
    }
    return render_page(request, "note_types", values, status=refused.status)


def _form(
    request: Request,
    pages: EntryPages,
    book: Notebook,
    form: EntryForm,
    *,
    id_: str = "",
    refused: FormError = NO_FORM_ERROR,
) -> Response:
    values = {
        "id": id_,
        "given": form,
        "refused": refused.message,
        "statuses": get_args(EntryStatus),
        "agents": book.agents,
        **pages.form_choices(book),
    }
    return render_page(request, f"{pages.kind}_edit", values, status=refused.status)


def _set_status(
    book: Notebook, kind: EntryKind, status: EntryStatus, ref: str, version: int
) -> None:
    entry = book.get(ref, kind)
    if (entry.status, entry.version) != (status, version):
        book.edit(replace(entry, status=status, version=version))
    elif status == "Active":
        book.approve(ref)  # clears the flags of an entry that is already Active


def _find(book: Notebook, ref: str, kind: EntryKind) -> Entry | None:
    try:
        return book.get(ref, kind)
    except EntryNotFound:
        return None
