"""What a browser sent in a form, letter by letter: a form that is refused shows it again."""

from collections.abc import Mapping
from typing import Annotated, TypeVar

from fastapi import Depends, Request
from pydantic import BaseModel, Field

F = TypeVar("F", bound=BaseModel)

SeenVersion = Annotated[int, Field(ge=0, lt=2**31)]
"""Which version a person saw, as any database takes it."""


async def _typed(request: Request) -> Mapping[str, str]:
    sent = await request.form()
    return {name: value for name, value in sent.items() if isinstance(value, str)}


RawForm = Annotated[Mapping[str, str], Depends(_typed)]


def unvalidated_form(form: type[F], typed: Mapping[str, str]) -> F:
    """The form filled with what was typed, whether that fits or not: to be shown, not used.

    What must be there and was not sent is empty.
    """
    fields = form.model_fields.items()
    known = {n: typed.get(n, "") for n, field in fields if n in typed or field.is_required()}
    return form.model_construct(None, **known)
