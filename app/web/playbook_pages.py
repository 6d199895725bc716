"""Playbooks: found, read, changed, approved and archived."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Annotated, Literal, get_args

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel

from app.web.errors import FORM_ERRORS, NO_FORM_ERROR, FormError, form_error
from app.web.pages import redirect, render_page
from app.web.raw_form import RawForm, SeenVersion, unvalidated_form
from app.web.selection import SelectedVersions, change_selected
from flows.recall.library import configured_library
from memory.errors import StaleUpdate
from memory.playbooks.library import Library
from memory.types import Playbook, PlaybookChanges, PlaybookFilter, PlaybookStatus
from memory.types import PlaybookQuery as Search

MAX_PLAYBOOKS = 200

Sort = Literal["newest change", "confidence", "executions", "title"]

_ORDER: dict[Sort, Callable[[Playbook], tuple[object, ...]]] = {
    "newest change": lambda one: (-one.updated_at.timestamp(),),
    "confidence": lambda one: (-one.confidence,),
    "executions": lambda one: (-one.counts.total,),
    "title": lambda one: (one.title.lower(),),
}

router = APIRouter()


class PlaybookListQuery(BaseModel, frozen=True):
    """What the list is asked for; with a text, the best hits come first."""

    text: str = ""
    category: str = ""
    sort: Sort = "newest change"
    archived: bool = False


class PlaybookForm(BaseModel, frozen=True):
    """A playbook as the form sends it. `version` is the one that the person saw."""

    title: str = ""
    use_case: str = ""
    process: str = ""
    notes: str = ""
    category: str = ""
    tags: str = ""
    status: PlaybookStatus = "active"
    version: SeenVersion

    def changes(self) -> PlaybookChanges:
        """The whole content as one change; browsers send lines with CR."""
        return PlaybookChanges(
            title=self.title,
            use_case=self.use_case.replace("\r\n", "\n"),
            process=self.process.replace("\r\n", "\n"),
            notes=self.notes.replace("\r\n", "\n"),
            category=self.category,
            tags=tuple(tag.strip() for tag in self.tags.split(",") if tag.strip()),
            status=self.status,
        )


@router.get("/playbooks")
def list_playbooks(request: Request, asked: Annotated[PlaybookListQuery, Query()]) -> Response:
    """Playbooks that fit, as a list."""
    with configured_library() as opened:
        found = _found(opened, asked)
        categories = sorted(name for name in opened.stats().by_category if name)
    values = {
        "playbooks": found[:MAX_PLAYBOOKS],
        "total": len(found),
        "asked": asked,
        "categories": categories,
        "sorts": get_args(Sort),
    }
    return render_page(request, "playbooks", values)


@router.post("/playbooks/status")
def set_status(
    request: Request,
    status: Annotated[PlaybookStatus, Form()],
    chosen: SelectedVersions = (),
) -> Response:
    """Give another status to those of the chosen playbooks that nobody changed since."""
    with configured_library() as opened:

        def judge(ref: str, version: int) -> None:
            opened.update(ref, PlaybookChanges(status=status), expected_version=version)

        change_selected(chosen, judge, lambda ref: opened.get(ref).title)
    return redirect(request, "/playbooks")


@router.get("/playbooks/{ref}")
def show_playbook(request: Request, ref: str) -> Response:
    """One playbook: content, lessons, executions, history."""
    with configured_library() as opened:
        values = {
            "one": opened.get(ref),
            "executions": opened.list_executions(ref, limit=50),
            "history": opened.history(ref),
        }
    return render_page(request, "playbook", values)


@router.get("/playbooks/{ref}/edit")
def edit_playbook(request: Request, ref: str) -> Response:
    """The form that changes it."""
    with configured_library() as opened:
        one = opened.get(ref)
    kept = asdict(one) | {"tags": ", ".join(one.tags)}
    return _form(request, one.id, PlaybookForm.model_validate(kept))


@router.post("/playbooks/{ref}")
def change_playbook(request: Request, ref: str, typed: RawForm) -> Response:
    """Keep the change; a person who was overtaken is told, and keeps their text in the form."""
    with configured_library() as opened:
        now = opened.get(ref)
        try:
            form = PlaybookForm.model_validate(typed)
            opened.update(ref, form.changes(), expected_version=form.version)
        except FORM_ERRORS as error:
            seen = {"version": str(now.version)} if isinstance(error, StaleUpdate) else {}
            mine = unvalidated_form(PlaybookForm, {**typed, **seen})
            return _form(request, now.id, mine, refused=form_error(error))
    return redirect(request, f"/playbooks/{ref}")


@router.post("/playbooks/{ref}/undo")
def undo_playbook(request: Request, ref: str, version: Annotated[SeenVersion, Form()]) -> Response:
    """Bring back the content before the last change, if that is the one that was seen."""
    with configured_library() as opened:
        opened.undo(ref, expected_version=version)
    return redirect(request, f"/playbooks/{ref}")


def _form(
    request: Request, id_: str, given: PlaybookForm, *, refused: FormError = NO_FORM_ERROR
) -> Response:
    values = {"id": id_, "given": given, "refused": refused.message}
    return render_page(request, "playbook_edit", values, status=refused.status)


def _found(opened: Library, asked: PlaybookListQuery) -> Sequence[Playbook]:
    where = PlaybookFilter(category=asked.category or None, archived=asked.archived)
    if asked.text:
        hits = opened.search(Search(text=asked.text, limit=MAX_PLAYBOOKS, filter=where))
        return [hit.playbook for hit in hits]
    return sorted(opened.list(where), key=_ORDER[asked.sort])
