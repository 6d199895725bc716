"""Error responses: an HTTP status for each kind of error, and one line of text or JSON."""

from collections.abc import Callable, Coroutine

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from starlette.datastructures import Headers
from starlette.routing import Match
from starlette.types import Scope

from contracts.errors import (
    ApprovalDecided,
    ApprovalNotFound,
    BadInput,
    HarnessError,
    RunNotFound,
    Unavailable,
)
from memory.errors import AgentUnknown, EntryNotFound, StaleUpdate

_NOT_FOUND = (RunNotFound, EntryNotFound, AgentUnknown, ApprovalNotFound)


class Problem(BaseModel):
    """An error response of the HTTP API."""

    error: str


class ApiRoute(APIRoute):
    """A route that answers our errors and invalid requests with a `Problem`."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[None, None, Response]]:
        """Return the handler of the route, wrapped in the error handling."""
        handle = super().get_route_handler()

        async def handle_errors(request: Request) -> Response:
            try:
                return await handle(request)
            except HarnessError as error:
                return problem_response(str(error), status=status_of(error))
            except RequestValidationError as error:
                return problem_response(validation_message(error), status=422)

        return handle_errors


class PageRoute(APIRoute):
    """A page at an address of the API, for clients that accept HTML, such as browsers."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Match nothing for other clients, which get the JSON."""
        return super().matches(scope) if wants_page(scope) else (Match.NONE, {})


def wants_page(scope: Scope) -> bool:
    """Return True if the client accepts HTML."""
    return "text/html" in Headers(scope=scope).get("accept", "")


def problem_response(message: str, *, status: int) -> JSONResponse:
    """Return the message as a `Problem`, in one line."""
    return JSONResponse(Problem(error=" ".join(message.split())).model_dump(), status_code=status)


def status_of(error: HarnessError) -> int:
    """Return the HTTP status for an error."""
    if isinstance(error, _NOT_FOUND):
        return 404
    match error:
        case StaleUpdate() | ApprovalDecided():
            return 409
        case BadInput():
            return 400
        case Unavailable():
            return 503
        case _:
            return 500


def validation_message(error: RequestValidationError | ValidationError) -> str:
    """Return the name of the first invalid field, the rule, and the value found."""
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return f"the body is not JSON: {first['ctx']['error']} at character {first['loc'][-1]}"
    if first["input"] == "":
        return f"{first['loc'][-1]}: it is empty"
    found = "" if first["type"] == "missing" else f", but it is {str(first['input'])[:80]!r}"
    return f"{first['loc'][-1]}: {first['msg']}{found}"


def bug_message(error: Exception) -> str:
    """Return the message for an unexpected exception."""
    return f"{type(error).__name__}: a bug in Harness; the log of the web server has the traceback"
