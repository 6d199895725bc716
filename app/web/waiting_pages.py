"""Pending decisions: their counts in the menu and on the dashboard, and the page of lessons."""

from typing import Annotated, Literal, NamedTuple

from fastapi import APIRouter, Form, Request
from fastapi.responses import Response

from app.web.api import PlanDependency
from app.web.pages import redirect, render_page
from flows.plans.run import PlanDependencies
from flows.recall.library import configured_library, configured_notebook
from memory.notes.types import EntryFilter
from memory.playbooks.executions import asks_for_playbook
from memory.playbooks.library import Library
from memory.types import Execution, PlaybookFilter

PENDING = EntryFilter(status="Pending")

router = APIRouter()


class Waiting(NamedTuple):
    """Numbers of things that only a person can decide."""

    approvals: int
    drafts: int
    lessons: int
    notes: int
    examples: int

    @property
    def total(self) -> int:
        """All of them."""
        return sum(self)

    @property
    def links(self) -> list[tuple[str, int, str]]:
        """Address, number and name of each kind."""
        return [
            ("/approvals", self.approvals, "approval"),
            ("/playbooks", self.drafts, "draft of a playbook"),
            ("/lessons", self.lessons, "run with lessons"),
            ("/notes?status=Pending", self.notes, "pending note"),
            ("/examples?status=Pending", self.examples, "pending example"),
        ]


def count_waiting(dependencies: PlanDependencies) -> Waiting:
    """Return what waits now."""
    with configured_library() as library, configured_notebook() as book:
        drafts = [one for one in library.list(PlaybookFilter()) if one.status == "draft"]
        return Waiting(
            approvals=len(dependencies.approvals.list(pending=True)),
            drafts=len(drafts),
            lessons=len(library.waiting_reflections()),
            notes=book.count("note", PENDING),
            examples=book.count("example", PENDING),
        )


@router.get("/menu")
def menu(request: Request, dependencies: PlanDependency, page: str = "/") -> Response:
    """Return the menu with its numbers; each page loads it after it is displayed."""
    links = count_waiting(dependencies).links
    counts = {href.partition("?")[0]: number for href, number, _ in links}
    return render_page(request, "_menu", {"counts": counts}, path=page)


@router.get("/lessons")
def list_lessons(request: Request) -> Response:
    """Return the reflections that wait, with their runs as evidence."""
    with configured_library() as library:
        waiting = [(one, _title(library, one)) for one in library.waiting_reflections()]
    return render_page(request, "lessons", {"waiting": waiting})


@router.post("/lessons/{id_}")
def decide(
    request: Request, id_: str, answer: Annotated[Literal["accept", "refuse"], Form()]
) -> Response:
    """Accept or refuse what a model concluded from a run; nothing if it does not wait any more."""
    with configured_library() as library:
        for one in library.waiting_reflections():
            if one.id == id_ and answer == "accept":
                library.accept_reflection(one)
            elif one.id == id_:
                library.refuse_reflection(one)
    return redirect(request, "/lessons")


def _title(library: Library, one: Execution) -> str:
    if one.playbook_id is not None and not asks_for_playbook(one):
        return library.get(one.playbook_id).title
    return one.reflection.title if one.reflection and one.reflection.title else one.task
