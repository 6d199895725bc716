"""Playbooks: found, read, changed, approved and archived."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Annotated, Literal, get_args

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel

from app.web.pages import back, page
from contracts.errors import BadInput
from flows.library import library
from memory.changes import Changes
from memory.errors import StaleUpdate
from memory.library import Library
from memory.types import Filter, Playbook, Status
from memory.types import Query as Search

LISTED = 200

Sort = Literal["newest change", "confidence", "executions", "title"]

_ORDER: dict[Sort, Callable[[Playbook], tuple[object, ...]]] = {
    "newest change": lambda one: (-one.updated_at.timestamp(),),
    "confidence": lambda one: (-one.confidence,),
    "executions": lambda one: (-one.counts.total,),
    "title": lambda one: (one.title.lower(),),
}

router = APIRouter()


class PlaybookFilter(BaseModel, frozen=True):
    """What the list is asked for; with a text, the best hits come first."""

    text: str = ""
    category: str = ""
    sort: Sort = "newest change"
    archived: bool = False


class PlaybookForm(BaseModel, frozen=True):
    """A playbook as the form sends it. `version` is the one that the person saw."""

    title: str
    use_case: str = ""
    process: str = ""
    notes: str = ""
    category: str = ""
    tags: str = ""
    status: Status = "active"
    version: int

    def changes(self) -> Changes:
        """The whole content as one change; browsers send lines with CR."""
        return Changes(
            title=self.title,
            use_case=self.use_case.replace("\r\n", "\n"),
            process=self.process.replace("\r\n", "\n"),
            notes=self.notes.replace("\r\n", "\n"),
            category=self.category,
            tags=tuple(tag.strip() for tag in self.tags.split(",") if tag.strip()),
            status=self.status,
        )


@router.get("/playbooks")
def list_playbooks(request: Request, asked: Annotated[PlaybookFilter, Query()]) -> Response:
    """Playbooks that fit, as a list."""
    with library() as opened:
        found = _found(opened, asked)
        categories = sorted(name for name in opened.stats().by_category if name)
    values = {
        "playbooks": found[:LISTED],
        "total": len(found),
        "asked": asked,
        "categories": categories,
        "sorts": get_args(Sort),
    }
    return page(request, "playbooks", values)


@router.post("/playbooks/status")
def set_status(
    request: Request,
    status: Annotated[Status, Form()],
    chosen: Annotated[tuple[str, ...], Form()] = (),
) -> Response:
    """Give the chosen playbooks another status."""
    with library() as opened:
        for ref in chosen:
            opened.update(ref, Changes(status=status))
    return back(request, "/playbooks")


@router.get("/playbooks/{ref}")
def show_playbook(request: Request, ref: str) -> Response:
    """One playbook: content, lessons, executions, history."""
    with library() as opened:
        values = {
            "one": opened.get(ref),
            "executions": opened.list_executions(ref, limit=50),
            "history": opened.history(ref),
        }
    return page(request, "playbook", values)


@router.get("/playbooks/{ref}/edit")
def edit_playbook(request: Request, ref: str) -> Response:
    """The form that changes it."""
    with library() as opened:
        one = opened.get(ref)
    given = {**asdict(one), "tags": ", ".join(one.tags)}
    return _form(request, one.id, given, version=one.version)


@router.post("/playbooks/{ref}")
def change_playbook(request: Request, ref: str, form: Annotated[PlaybookForm, Form()]) -> Response:
    """Keep the change; who was overtaken is told, with the own text still in the form."""
    with library() as opened:
        try:
            opened.update(ref, form.changes(), expected_version=form.version)
        except (BadInput, StaleUpdate) as error:
            now = opened.get(ref)
            return _form(
                request, now.id, form.model_dump(), version=now.version, refused=str(error)
            )
    return back(request, f"/playbooks/{ref}")


@router.post("/playbooks/{ref}/undo")
def undo_playbook(request: Request, ref: str) -> Response:
    """Bring back the content before the last change."""
    with library() as opened:
        opened.undo(ref)
    return back(request, f"/playbooks/{ref}")


def _form(
    request: Request, id_: str, given: dict[str, object], *, version: int, refused: str = ""
) -> Response:
    values = {"id": id_, "given": given, "version": version, "refused": refused}
    return page(request, "playbook_edit", values, status=409 if refused else 200)


def _found(opened: Library, asked: PlaybookFilter) -> Sequence[Playbook]:
    where = Filter(category=asked.category or None, archived=asked.archived)
    if asked.text:
        hits = opened.search(Search(text=asked.text, limit=LISTED, filter=where))
        return [hit.playbook for hit in hits]
    return sorted(opened.list(where), key=_ORDER[asked.sort])
