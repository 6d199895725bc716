"""A route for programs: whatever goes wrong is one line of JSON."""

from collections.abc import Callable, Coroutine

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel

from app.web.errors import status_of, validation_message
from contracts.errors import HarnessError

Answer = Callable[[Request], Coroutine[None, None, Response]]


class Problem(BaseModel):
    """Why it did not work, in one line."""

    error: str


class ApiRoute(APIRoute):
    """Answers errors of ours, and requests that do not fit, with a `Problem`."""

    def get_route_handler(self) -> Answer:
        """The handler, with that around it."""
        handle = super().get_route_handler()

        async def answer(request: Request) -> Response:
            try:
                return await handle(request)
            except HarnessError as error:
                return problem_response(str(error), status=status_of(error))
            except RequestValidationError as error:
                return problem_response(validation_message(error), status=422)

        return answer


def problem_response(why: str, *, status: int) -> JSONResponse:
    """The answer that says so."""
    return JSONResponse(Problem(error=" ".join(why.split())).model_dump(), status_code=status)
