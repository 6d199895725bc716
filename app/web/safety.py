"""Access control of the web server: token, same-site check, size of bodies, security headers."""

import secrets
import time
from collections.abc import Awaitable, Callable

from fastapi import HTTPException, Request
from fastapi.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from flows.services.local_http import cross_site_reason

TOKEN_COOKIE = "harness-token"  # noqa: S105 - the cookie's name

_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; "
        "form-action 'self'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}

MAX_BODY_BYTES = 8 * 1024 * 1024
"""Largest body that a page or the API accepts; a note or playbook has at most 1 MB."""

_WRONG_GUESSES = 10
"""Wrong tokens that one address may send at once; then one each second."""
_MAX_ADDRESSES = 1_000

Next = Callable[[Request], Awaitable[Response]]
IsApiRequest = Callable[[Request], bool]


def access_guard(
    token: str | None, is_api_request: IsApiRequest
) -> Callable[[Request, Next], Awaitable[Response]]:
    """Return a middleware that checks every request; API requests get refusals as JSON.

    Without a token, only requests for a loopback name and from pages of this server are accepted,
    which prevents DNS rebinding and CSRF. With a token, every request needs it: as
    `Authorization: Bearer`, or once as `?token=`, after which the browser has an HttpOnly cookie.
    """

    guesses = _Guesses()

    async def guard(request: Request, call_next: Next) -> Response:
        try:
            login = _check(request, token, guesses)
        except _Refused as error:
            message, status = f"refused: {error}", error.status
            if is_api_request(request):
                return JSONResponse({"error": message}, status_code=status, headers=_HEADERS)
            return PlainTextResponse(f"{message}\n", status_code=status, headers=_HEADERS)
        if login is not None:
            return login
        response = await call_next(request)
        if request.url.path.startswith("/static/"):
            response.headers["Cache-Control"] = "max-age=3600"
        for name, value in _HEADERS.items():
            response.headers.setdefault(name, value)
        return response

    return guard


class _Refused(Exception):
    """The request is refused; the message gives the reason."""

    def __init__(self, reason: str, *, status: int = 403) -> None:
        super().__init__(reason)
        self.status = status


class _Guesses:
    """Counts wrong tokens by the address that sent them; one is forgotten each second."""

    def __init__(self) -> None:
        self._until: dict[str, float] = {}

    def must_wait(self, address: str) -> bool:
        return self._until.get(address, 0.0) - time.monotonic() > _WRONG_GUESSES - 1

    def count(self, address: str) -> None:
        if len(self._until) >= _MAX_ADDRESSES:
            now = time.monotonic()
            self._until = {key: until for key, until in self._until.items() if until > now}
        self._until[address] = max(self._until.get(address, 0.0), time.monotonic()) + 1


class BodyLimit:
    """Refuses a body over MAX_BODY_BYTES before anything parses it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on; reading its body raises 413 once it is too long."""
        left = MAX_BODY_BYTES

        async def limited() -> Message:
            nonlocal left
            message = await receive()
            left -= len(message.get("body", b""))
            if left < 0:
                raise HTTPException(413, f"the body has more than {MAX_BODY_BYTES} bytes")
            return message

        await self._app(scope, limited if scope["type"] == "http" else receive, send)


def _check(request: Request, token: str | None, guesses: _Guesses) -> Response | None:
    """Return None for an accepted request, or a redirect that stores the token of `?token=`."""
    reason = cross_site_reason(request.method, request.headers, any_host=token is not None)
    if reason is not None:
        raise _Refused(reason)
    if token is None:
        return None
    address = request.client.host if request.client else ""
    if guesses.must_wait(address):
        raise _Refused("too many wrong tokens came from this address: wait a second", status=429)
    try:
        return None if _has_token(request, token) else _log_in(request, token)
    except _Refused:
        if _sent_token(request):
            guesses.count(address)
        raise


def _sent_token(request: Request) -> str:
    """Return the token that a request shows; empty without one."""
    kind, _, bearer = request.headers.get("authorization", "").partition(" ")
    shown = bearer if kind.lower() == "bearer" else request.cookies.get(TOKEN_COOKIE, "")
    return shown or request.query_params.get("token", "")


def _has_token(request: Request, token: str) -> bool:
    kind, _, bearer = request.headers.get("authorization", "").partition(" ")
    found = bearer if kind.lower() == "bearer" else request.cookies.get(TOKEN_COOKIE, "")
    return secrets.compare_digest(found.encode(), token.encode())


def _log_in(request: Request, token: str) -> Response:
    found = request.query_params.get("token", "")
    if request.method != "GET" or not secrets.compare_digest(found.encode(), token.encode()):
        reason = "a token is required: open the address that `harness ui` printed"
        raise _Refused(reason, status=401)
    response = RedirectResponse(request.url.remove_query_params("token"), status_code=303)
    response.set_cookie(TOKEN_COOKIE, token, httponly=True, samesite="strict")
    return response
