"""HTML forms: the values that a browser sends, and why a form is shown again."""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, NamedTuple, TypeVar
from urllib.parse import parse_qsl, urlencode

from fastapi import Depends, Form, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field, StringConstraints, ValidationError

from app.web.errors import validation_message
from contracts.errors import BadInput
from memory.errors import EntryNotFound, StaleUpdate

F = TypeVar("F", bound=BaseModel)

SeenVersion = Annotated[int, Field(ge=0, lt=2**31)]
"""Version of the entry that the form displayed; the upper bound is that of SQL integers."""

SelectedVersions = Annotated[
    tuple[Annotated[str, StringConstraints(pattern=r"^[^@]+@\d{1,9}$")], ...], Form()
]
"""Ids of the selected rows of a list, each with the displayed version, such as `4f0c…@3`."""

FORM_ERRORS = (BadInput, StaleUpdate, ValidationError)
"""Errors after which the form is shown again, with the message and the typed values."""


class FormError(NamedTuple):
    """Message and HTTP status of a form that is shown again."""

    message: str
    status: int


NO_FORM_ERROR = FormError("", 200)


def form_error(error: BadInput | StaleUpdate | ValidationError) -> FormError:
    """Return the message and status for one of `FORM_ERRORS`."""
    if isinstance(error, ValidationError):
        return FormError(validation_message(error), 422)
    return FormError(str(error), 409)


async def _raw_form(request: Request) -> Mapping[str, str]:
    sent = await request.form()
    return {name: value for name, value in sent.items() if isinstance(value, str)}


RawForm = Annotated[Mapping[str, str], Depends(_raw_form)]
"""The form as the browser sent it, before validation."""


def from_query(form: type[F], request: Request) -> F:
    """Return a form that is filled from the query of the address.

    Raises:
        RequestValidationError: a value is invalid.
    """
    try:
        return form.model_validate(dict(request.query_params))
    except ValidationError as error:
        raise RequestValidationError(error.errors()) from error


def unvalidated_form(
    form: type[F], raw: Mapping[str, str], error: Exception, current_version: int = 0
) -> F:
    """Return the typed values for showing the form again; missing required fields are empty.

    After a `StaleUpdate` the form gets the current version: the message tells the user about the
    other change, so that saving again overwrites it.
    """
    if isinstance(error, StaleUpdate):
        raw = {**raw, "version": str(current_version)}
    fields = form.model_fields.items()
    known = {n: raw.get(n, "") for n, field in fields if n in raw or field.is_required()}
    return form.model_construct(None, **known)


def browser_text(text: str) -> str:
    """Return the text of a textarea with LF line ends; browsers send CR LF."""
    return text.replace("\r\n", "\n")


def list_address(path: str, query: type[BaseModel], back: str, done: str) -> str:
    """Return the address of a list with the filter that was displayed, and what was done there.

    `back` is the query of the displayed list; unknown fields are left out.
    """
    try:
        shown = query.model_validate(dict(parse_qsl(back, max_num_fields=50)))
    except ValueError:  # also pydantic's
        shown = query()
    return f"{path}?{urlencode({**shown.model_dump(), 'done': done})}"


def change_selected(
    selected: Sequence[str], change: Callable[[str, int], object], name: Callable[[str], str]
) -> int:
    """Change every selected entry that still has the displayed version; return how many.

    Raises:
        StaleUpdate: some entries have another version. They are unchanged, and the message
            contains their `name`.
    """
    stale: list[str] = []
    for one in selected:
        ref, _, version = one.rpartition("@")
        try:
            change(ref, int(version))
        except StaleUpdate:
            stale.append(repr(name(ref)[:60]))
        except EntryNotFound:
            stale.append("a deleted entry")
    if stale:
        raise StaleUpdate(
            f"changed since the list was displayed, and left unchanged: {', '.join(stale)}. "
            "Reload the list and select them again"
        )
    return len(selected)
