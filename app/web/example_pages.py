"""Examples: pairs of input and output, the best first."""

from typing import Annotated, Literal, get_args

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from app.web.entry_forms import EntryFilter, ExampleForm
from app.web.entry_pages import Shape, entry_list, entry_router
from memory.notes.render import render_example
from memory.notes.types import Entry, Example, ScopeKind

Order = Literal["score", "updated", "created", "status", "scope"]

router = APIRouter()


class ExampleFilter(EntryFilter, frozen=True):
    """What the list of examples is asked for."""

    sort: Order = "score"


@router.get("/examples")
def list_examples(request: Request, asked: Annotated[ExampleFilter, Query()]) -> Response:
    """Examples that fit, a page at a time."""
    values = {"asked": asked, "scopes": get_args(ScopeKind), "sorts": get_args(Order)}
    return entry_list(request, "example", asked.where(asked.sort), values)


def _asked(form: Annotated[ExampleForm, Query()]) -> ExampleForm:
    return form


def _beside(one: Entry) -> dict[str, object]:
    return {"in_a_prompt": render_example(one) if isinstance(one, Example) else ""}


router.include_router(
    entry_router(
        Shape(
            kind="example",
            form=ExampleForm,
            asked=_asked,
            beside=_beside,
            choices=lambda _: {},
        )
    )
)
