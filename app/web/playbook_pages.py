"""Pages of playbooks: search, read, edit, activate and archive."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Annotated, Literal, get_args

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel

from app.web.forms import (
    FORM_ERRORS,
    NO_FORM_ERROR,
    FormError,
    RawForm,
    SeenVersion,
    SelectedVersions,
    browser_text,
    change_selected,
    form_error,
    list_address,
    unvalidated_form,
)
from app.web.pages import redirect, render_page
from flows.recall.library import configured_library
from memory.errors import StaleUpdate
from memory.playbooks.library import Library
from memory.types import Playbook, PlaybookChanges, PlaybookFilter, PlaybookQuery, PlaybookStatus

MAX_PLAYBOOKS = 200

Sort = Literal["newest change", "confidence", "executions", "title"]

_SORT_KEYS: dict[Sort, Callable[[Playbook], tuple[object, ...]]] = {
    "newest change": lambda one: (-one.updated_at.timestamp(),),
    "confidence": lambda one: (-one.confidence,),
    "executions": lambda one: (-one.counts.total,),
    "title": lambda one: (one.title.lower(),),
}

router = APIRouter()


class PlaybookListQuery(BaseModel, frozen=True):
    """Filter of the list; with a text, the list is sorted by relevance."""

    text: str = ""
    category: str = ""
    sort: Sort = "newest change"
    archived: bool = False


class PlaybookForm(BaseModel, frozen=True):
    """A playbook; `version` is the displayed one."""

    title: str = ""
    use_case: str = ""
    process: str = ""
    notes: str = ""
    category: str = ""
    tags: str = ""
    status: PlaybookStatus = "active"
    version: SeenVersion

    def changes(self) -> PlaybookChanges:
        """Return the whole content as one change."""
        return PlaybookChanges(
            title=self.title,
            use_case=browser_text(self.use_case),
            process=browser_text(self.process),
            notes=browser_text(self.notes),
            category=self.category,
            tags=tuple(tag.strip() for tag in self.tags.split(",") if tag.strip()),
            status=self.status,
        )


@router.get("/playbooks")
def list_playbooks(request: Request, query: Annotated[PlaybookListQuery, Query()]) -> Response:
    """Return the playbooks that match."""
    with configured_library() as library:
        found = _find(library, query)
        categories = sorted(name for name in library.stats().by_category if name)
    values = {
        "playbooks": found[:MAX_PLAYBOOKS],
        "total": len(found),
        "asked": query,
        "done": request.query_params.get("done", "")[:100],
        "categories": categories,
        "sorts": get_args(Sort),
    }
    return render_page(request, "playbooks", values)


@router.post("/playbooks/status")
def set_status(
    request: Request,
    status: Annotated[PlaybookStatus, Form()],
    chosen: SelectedVersions = (),
    back: Annotated[str, Form(max_length=4_000)] = "",
) -> Response:
    """Change the status of the selected playbooks that still have the displayed version."""
    with configured_library() as library:

        def change(ref: str, version: int) -> None:
            library.update(ref, PlaybookChanges(status=status), expected_version=version)

        number = change_selected(chosen, change, lambda ref: library.get(ref).title)
    done = f"{number} {'archived' if status == 'archived' else 'made ' + status}"
    return redirect(request, list_address("/playbooks", PlaybookListQuery, back, done))


@router.get("/playbooks/{ref}")
def show_playbook(request: Request, ref: str) -> Response:
    """Return the page of one playbook: content, lessons, executions, history."""
    with configured_library() as library:
        values = {
            "one": library.get(ref),
            "executions": library.list_executions(ref, limit=50),
            "history": library.history(ref),
            "waiting": library.waiting_reflections(ref),
        }
    return render_page(request, "playbook", values)


@router.get("/playbooks/{ref}/edit")
def edit_playbook(request: Request, ref: str) -> Response:
    """Return the form that changes a playbook."""
    with configured_library() as library:
        one = library.get(ref)
    values = asdict(one) | {"tags": ", ".join(one.tags)}
    return _form(request, one.id, PlaybookForm.model_validate(values))


@router.post("/playbooks/{ref}")
def change_playbook(request: Request, ref: str, raw: RawForm) -> Response:
    """Save a change; after an error the form keeps the typed values."""
    with configured_library() as library:
        current = library.get(ref)
        try:
            form = PlaybookForm.model_validate(raw)
            library.update(ref, form.changes(), expected_version=form.version)
        except FORM_ERRORS as error:
            typed = unvalidated_form(PlaybookForm, raw, error, current.version)
            return _form(request, current.id, typed, refused=form_error(error))
    return redirect(request, f"/playbooks/{ref}")


@router.post("/playbooks/{ref}/delete")
def delete_playbook(
    request: Request, ref: str, version: Annotated[SeenVersion, Form()]
) -> Response:
    """Delete a playbook with its history if it has the displayed version."""
    with configured_library() as library:
        one = library.get(ref)
        if one.version != version:
            raise StaleUpdate(
                f"{one.slug} is at version {one.version} now, and you saw version {version}: it "
                "was not deleted. Read it again"
            )
        library.delete(one.id)
    return redirect(request, list_address("/playbooks", PlaybookListQuery, "", "1 deleted"))


@router.post("/playbooks/{ref}/lessons/{lesson_id}/forget")
def forget_lesson(request: Request, ref: str, lesson_id: int) -> Response:
    """Remove a lesson that has turned out to be wrong."""
    with configured_library() as library:
        library.forget_lessons(
            ref, lambda found: [lesson for lesson in found.lessons if lesson.id == lesson_id]
        )
    return redirect(request, f"/playbooks/{ref}")


@router.post("/playbooks/{ref}/undo")
def undo_playbook(request: Request, ref: str, version: Annotated[SeenVersion, Form()]) -> Response:
    """Undo the last change if it is the displayed one."""
    with configured_library() as library:
        library.undo(ref, expected_version=version)
    return redirect(request, f"/playbooks/{ref}")


def _form(
    request: Request, id_: str, form: PlaybookForm, *, refused: FormError = NO_FORM_ERROR
) -> Response:
    values = {"id": id_, "given": form, "refused": refused.message}
    return render_page(request, "playbook_edit", values, status=refused.status)


def _find(library: Library, query: PlaybookListQuery) -> Sequence[Playbook]:
    where = PlaybookFilter(category=query.category or None, archived=query.archived)
    if query.text:
        results = library.search(PlaybookQuery(text=query.text, limit=MAX_PLAYBOOKS, filter=where))
        return [result.playbook for result in results]
    return sorted(library.list(where), key=_SORT_KEYS[query.sort])
