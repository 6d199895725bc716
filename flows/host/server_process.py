"""Prefect's server, as `prefect server start` serves it, behind a guard.

Prefect takes requests from every page that is open in a browser here, and by every name.
"""

import sys
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import cast

from flows.services.ports import listen_on
from flows.services.same_site import cross_site_reason

Message = MutableMapping[str, object]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
AsgiApp = Callable[[Message, Receive, Send], Awaitable[None]]
"""An ASGI application."""

_Headers = Iterable[tuple[bytes, bytes]]

_NO_FRAME = (b"content-security-policy", b"frame-ancestors 'self'")
"""A page elsewhere could lay Prefect's own buttons, unseen, under the mouse."""


def refuse_other_sites(app: AsgiApp) -> AsgiApp:
    """The application for who asks from this machine; pages of other sites get 403."""

    async def serve(scope: Message, receive: Receive, send: Send) -> None:
        async def unframed(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*cast("_Headers", message["headers"]), _NO_FRAME]
            await send(message)

        if scope["type"] == "lifespan":
            await app(scope, receive, send)
        elif (why := _stranger(scope)) is None:
            await app(scope, receive, unframed)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close"})  # before it is opened: 403
        else:
            headers = [(b"content-type", b"text/plain; charset=utf-8")]
            await send({"type": "http.response.start", "status": 403, "headers": headers})
            await send({"type": "http.response.body", "body": f"refused: {why}\n".encode()})

    return serve


def _stranger(scope: Message) -> str | None:
    raw = cast("_Headers", scope["headers"])  # so ASGI says, in small letters
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in raw}
    return cross_site_reason(
        str(scope.get("method")), headers
    )  # a websocket has none, and changes things


def main() -> None:
    """Serve at the port given until the process is told to end."""
    listening = listen_on("127.0.0.1", int(sys.argv[1]))

    import uvicorn
    from prefect.server.api.server import create_app
    from prefect.settings import get_current_settings

    here = get_current_settings().server
    config = uvicorn.Config(
        refuse_other_sites(create_app(final=True)),
        timeout_keep_alive=here.api.keepalive_timeout,
        ws_ping_interval=here.api.websocket_ping_interval,
        ws_ping_timeout=here.api.websocket_ping_timeout,
        log_level=here.logging_level.lower(),
    )
    with listening:
        uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main()
