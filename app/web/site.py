"""The pages' site: its rooms put together, and the door that errors leave by."""

import logging
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from fastapi.staticfiles import StaticFiles

from app.web import (
    agent_pages,
    api,
    approval_pages,
    dashboard,
    example_pages,
    metrics,
    note_pages,
    note_type_pages,
    playbook_pages,
    run_pages,
)
from app.web.api_route import ApiRoute, problem_response
from app.web.errors import bug_message, status_of, validation_message
from app.web.pages import render_page
from app.web.safety import access_guard
from contracts.errors import HarnessError

_log = logging.getLogger(__name__)

_ROOMS = (
    dashboard,
    run_pages,
    approval_pages,
    playbook_pages,
    note_pages,
    note_type_pages,
    example_pages,
    agent_pages,
    api,
    metrics,
)


def create_app(*, token: str | None = None) -> FastAPI:
    """Every page. With `token=None` it serves this machine only."""
    made = FastAPI(title="Harness", docs_url=None, redoc_url=None, openapi_url=None)
    made.mount("/static", StaticFiles(directory=Path(__file__).parent / "static"))
    made.middleware("http")(access_guard(token, api.is_api_request))
    for room in _ROOMS:
        made.include_router(room.router)
    made.add_exception_handler(HarnessError, _error_page)
    made.add_exception_handler(RequestValidationError, _misfit)
    made.add_exception_handler(404, _no_page)
    made.add_exception_handler(Exception, _broken)
    return made


def _error_page(request: Request, error: Exception) -> Response:
    """An error of ours: its own sentence is the page."""
    assert isinstance(error, HarnessError)  # noqa: S101 - as it is registered
    values = {"title": "That did not work", "why": str(error)}
    return render_page(request, "error", values, status=status_of(error))


def _misfit(request: Request, error: Exception) -> Response:
    """What a form sent cannot be: the first misfit, in words."""
    assert isinstance(error, RequestValidationError)  # noqa: S101 - as it is registered
    values = {"title": "That does not fit", "why": validation_message(error)}
    return render_page(request, "error", values, status=422)


def _no_page(request: Request, error: Exception) -> Response:
    del error
    why = f"there is no page {request.url.path}"
    return render_page(request, "error", {"title": "Nothing here", "why": why}, status=404)


def _broken(request: Request, error: Exception) -> Response:
    """The door: a bug is logged with its traceback, nobody sees it in the browser."""
    _log.error("page %s failed", request.url.path, exc_info=error)
    if isinstance(request.scope.get("route"), ApiRoute):
        return problem_response(bug_message(error), status=500)
    values = {"title": "That did not work", "why": bug_message(error)}
    return render_page(request, "error", values, status=500)
