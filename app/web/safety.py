"""Access control of the web server: token, same-site check, and security headers."""

import secrets
from collections.abc import Awaitable, Callable

from fastapi import Request
from fastapi.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response

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

    async def guard(request: Request, call_next: Next) -> Response:
        try:
            login = _check(request, token)
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


def _check(request: Request, token: str | None) -> Response | None:
    """Return None for an accepted request, or a redirect that stores the token of `?token=`."""
    reason = cross_site_reason(request.method, request.headers, any_host=token is not None)
    if reason is not None:
        raise _Refused(reason)
    return None if token is None or _has_token(request, token) else _log_in(request, token)


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
