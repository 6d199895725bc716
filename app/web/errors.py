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


REFUSED = (BadInput, StaleUpdate, ValidationError)
"""What a form is shown again for."""


class Refusal(NamedTuple):
    """Why a form is shown again."""

    why: str
    status: int


SHOWN_FIRST = Refusal("", 200)
"""Nothing was sent yet."""


def refusal(error: BadInput | StaleUpdate | ValidationError) -> Refusal:
    """What the form that is shown again says."""
    if isinstance(error, ValidationError):
        return Refusal(misfit(error), 422)
    return Refusal(str(error), 409)


def misfit(error: RequestValidationError | ValidationError) -> str:
    """The first thing that does not fit in what was sent, in words."""
    first = error.errors()[0]
    if first["input"] == "":
        return f"{first['loc'][-1]}: it is empty"
    found = "" if first["type"] == "missing" else f", but it is {str(first['input'])[:80]!r}"
    return f"{first['loc'][-1]}: {first['msg']}{found}"


def bug(error: Exception) -> str:
    """What a person is told of a bug."""
    return f"{type(error).__name__}: a bug in Harness; the log of the pages says more"
