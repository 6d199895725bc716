"""The web server of the pages and the HTTP API.

`harness up` runs it as `python -m app.web.serve`.
"""

import logging
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import uvicorn
from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from fastapi.staticfiles import StaticFiles

from app.web import (
    agent_pages,
    api,
    approval_pages,
    entry_pages,
    metrics,
    plan_pages,
    playbook_pages,
    run_pages,
    waiting_pages,
)
from app.web.errors import ApiRoute, bug_message, problem_response, status_of, validation_message
from app.web.pages import render_page
from app.web.safety import BodyLimit, access_guard
from contracts.errors import HarnessError, SettingsInvalid
from flows.config.settings import LOOPBACK_HOSTS, UiSettings, load_settings
from flows.services.local_http import http_url, listen_on

_log = logging.getLogger(__name__)

MIN_TOKEN_CHARS = 16
"""Fewest characters of a token that other machines may guess at."""

_PAGES = (
    *(run_pages, waiting_pages, approval_pages, playbook_pages, entry_pages, agent_pages),
    *(plan_pages, api, metrics),  # the pages of plans come before the API, whose paths they share
)


class PagesAddress(NamedTuple):
    """Address of the server, and the token that it requires; None on loopback only."""

    host: str
    port: int
    token: str | None

    @property
    def url(self) -> str:
        """The URL to open in a browser."""
        token = f"?token={self.token}" if self.token else ""
        return f"{http_url(self.host, self.port)}/{token}"


def pages_address(settings: UiSettings) -> PagesAddress:
    """Return the configured address; a host other than loopback gets a token if it has none.

    Raises:
        SettingsInvalid: the token is too short for a host other than loopback.
    """
    token = settings.token.get_secret_value() if settings.token else None
    if settings.host not in LOOPBACK_HOSTS:
        token = token or secrets.token_urlsafe(32)
        if len(token) < MIN_TOKEN_CHARS:
            raise SettingsInvalid(
                f"ui.token has {len(token)} characters: at {settings.host!r}, which others can "
                f"reach, at least {MIN_TOKEN_CHARS} are needed; leave it out to get a new one at "
                "each start"
            )
    return PagesAddress(settings.host, settings.port, token)


def serve(address: PagesAddress, ready: Callable[[PagesAddress], None]) -> None:
    """Serve until interrupted; `ready` gets the address with the port that was opened.

    Raises:
        SettingsInvalid: the address cannot be used.
    """
    try:
        listening = listen_on(address.host, address.port)
    except OSError as error:
        raise SettingsInvalid(
            f"pages cannot be served at {address.host!r}:{address.port}: {error.strerror}; "
            "choose another address with --host and --port or with [ui] in harness.toml"
        ) from error
    with listening:
        ready(address._replace(port=listening.getsockname()[1]))
        config = uvicorn.Config(
            create_app(token=address.token),
            log_level="warning",
            access_log=False,
            timeout_graceful_shutdown=1,  # streams of /events never end by themselves
        )
        uvicorn.Server(config).run(sockets=[listening])


def create_app(*, token: str | None = None) -> FastAPI:
    """Return the application with all routes; without a token it serves this machine only."""
    made = FastAPI(title="Harness", docs_url=None, redoc_url=None, openapi_url=None)
    made.mount("/static", StaticFiles(directory=Path(__file__).parent / "static"))
    made.add_middleware(BodyLimit)
    made.middleware("http")(access_guard(token, api.is_api_request))
    for module in _PAGES:
        made.include_router(module.router)
    made.add_exception_handler(HarnessError, _harness_error)
    made.add_exception_handler(RequestValidationError, _invalid_request)
    made.add_exception_handler(404, _not_found)
    made.add_exception_handler(413, _too_long)
    made.add_exception_handler(Exception, _unexpected_error)
    return made


def _harness_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HarnessError)  # noqa: S101 - registered for this class
    return _error_page(request, "Error", str(error), status_of(error))


def _invalid_request(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - registered for this class
    return _error_page(request, "Invalid request", validation_message(error), 422)


def _not_found(request: Request, error: Exception) -> Response:
    del error
    return _error_page(request, "Page not found", f"there is no page {request.url.path}", 404)


def _too_long(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for this class
    if api.is_api_request(request):
        return problem_response(error.detail, status=413)
    return _error_page(request, "Too long", error.detail, 413)


def _unexpected_error(request: Request, error: Exception) -> Response:
    """Log the traceback, and return one line without it."""
    _log.error("page %s failed", request.url.path, exc_info=error)
    if isinstance(request.scope.get("route"), ApiRoute):
        return problem_response(bug_message(error), status=500)
    return _error_page(request, "Error", bug_message(error), 500)


def _error_page(request: Request, title: str, message: str, status: int) -> Response:
    return render_page(request, "error", {"title": title, "why": message}, status=status)


if __name__ == "__main__":
    serve(pages_address(load_settings().ui), ready=lambda _: None)
