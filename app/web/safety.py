"""What stands before every page: who may ask, from where, and what a page may load."""

import secrets
from collections.abc import Awaitable, Callable

from fastapi import Request
from fastapi.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response

from flows.services.same_site import cross_site_reason

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
"""Whether a program asks, which wants its refusals as JSON."""


def access_guard(
    token: str | None, for_program: IsApiRequest
) -> Callable[[Request, Next], Awaitable[Response]]:
    """A middleware. Without a token only this machine is served, and only under its own names:
    a page elsewhere cannot point its name here (DNS rebinding) or post here (CSRF).

    With a token everyone who knows it is served: as `Authorization: Bearer`, or once as
    `?token=`, which the browser then keeps as a cookie that no script can read.
    """

    async def guard(request: Request, call_next: Next) -> Response:
        try:
            let_in = _let_in(request, token)
        except _Refused as error:
            why, status = f"refused: {error}", error.status
            if for_program(request):
                return JSONResponse({"error": why}, status_code=status, headers=_HEADERS)
            return PlainTextResponse(f"{why}\n", status_code=status, headers=_HEADERS)
        if let_in is not None:
            return let_in
        response = await call_next(request)
        if request.url.path.startswith("/static/"):
            response.headers["Cache-Control"] = "max-age=3600"
        for name, value in _HEADERS.items():
            response.headers.setdefault(name, value)
        return response

    return guard


def _knows(request: Request, token: str) -> bool:
    kind, _, given = request.headers.get("authorization", "").partition(" ")
    shown = given if kind.lower() == "bearer" else request.cookies.get(TOKEN_COOKIE, "")
    return secrets.compare_digest(shown.encode(), token.encode())


class _Refused(Exception):
    """The request is not served; the message says why."""

    def __init__(self, why: str, *, status: int = 403) -> None:
        super().__init__(why)
        self.status = status


def _let_in(request: Request, token: str | None) -> Response | None:
    """None for who may ask; for who just showed the token, the way to the page."""
    why = cross_site_reason(request.method, request.headers, any_host=token is not None)
    if why is not None:
        raise _Refused(why)
    return None if token is None or _knows(request, token) else _with_token(request, token)


def _with_token(request: Request, token: str) -> Response:
    given = request.query_params.get("token", "")
    if request.method != "GET" or not secrets.compare_digest(given.encode(), token.encode()):
        why = "a token is wanted: open the address that `harness ui` printed"
        raise _Refused(why, status=401)
    response = RedirectResponse(request.url.remove_query_params("token"), status_code=303)
    response.set_cookie(TOKEN_COOKIE, token, httponly=True, samesite="strict")
    return response
