"""What a request is told when it fails: one line, and the status that fits the kind of error."""

from typing import NamedTuple

from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError

from contracts.errors import (
    ApprovalDecided,
    ApprovalNotFound,
    BadInput,
    HarnessError,
    RunNotFound,
    Unavailable,
)
from memory.errors import AgentUnknown, NoteNotFound, PlaybookNotFound, StaleUpdate


def status_of(error: HarnessError) -> int:
    """The HTTP status for this kind of error."""
    match error:
        case (
            RunNotFound()
            | PlaybookNotFound()
            | NoteNotFound()
            | AgentUnknown()
            | ApprovalNotFound()
        ):
            return 404
        case StaleUpdate() | ApprovalDecided():
            return 409
        case BadInput():
            return 400
        case Unavailable():
            return 503
        case _:
            return 500


FORM_ERRORS = (BadInput, StaleUpdate, ValidationError)
"""What a form is shown again for."""


class FormError(NamedTuple):
    """Why a form is shown again."""

    message: str
    status: int


NO_FORM_ERROR = FormError("", 200)
"""Nothing was sent yet."""


def form_error(error: BadInput | StaleUpdate | ValidationError) -> FormError:
    """What the form that is shown again says."""
    if isinstance(error, ValidationError):
        return FormError(validation_message(error), 422)
    return FormError(str(error), 409)


def validation_message(error: RequestValidationError | ValidationError) -> str:
    """The first thing that does not fit in what was sent, in words."""
    first = error.errors()[0]
    if first["input"] == "":
        return f"{first['loc'][-1]}: it is empty"
    found = "" if first["type"] == "missing" else f", but it is {str(first['input'])[:80]!r}"
    return f"{first['loc'][-1]}: {first['msg']}{found}"


def bug_message(error: Exception) -> str:
    """What a person is told of a bug."""
    return f"{type(error).__name__}: a bug in Harness; the log of the pages says more"
