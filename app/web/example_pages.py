"""Examples: pairs of input and output, the best first."""

from typing import Annotated, Literal, get_args

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from app.web.entry_forms import EntryListQuery, ExampleForm
from app.web.entry_pages import EntryPages, entry_list, entry_router
from memory.notes.render import render_example
from memory.notes.types import Entry, Example, ScopeKind

Order = Literal["score", "updated", "created", "status", "scope"]

router = APIRouter()


class ExampleListQuery(EntryListQuery, frozen=True):
    """What the list of examples is asked for."""

    sort: Order = "score"


@router.get("/examples")
def list_examples(request: Request, asked: Annotated[ExampleListQuery, Query()]) -> Response:
    """Examples that fit, a page at a time."""
    values = {"asked": asked, "scopes": get_args(ScopeKind), "sorts": get_args(Order)}
    return entry_list(request, "example", asked.where(asked.sort), values)


def _asked(form: Annotated[ExampleForm, Query()]) -> ExampleForm:
    return form


def _beside(one: Entry) -> dict[str, object]:
    return {"in_a_prompt": render_example(one) if isinstance(one, Example) else ""}


router.include_router(
    entry_router(
        EntryPages(
            kind="example",
            form=ExampleForm,
            form_from_query=_asked,
            extra_values=_beside,
            form_choices=lambda _: {},
        )
    )
)
