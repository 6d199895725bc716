"""The process of the local Prefect server: `python -m flows.host.server_process PORT`.

It serves what `prefect server start` serves, but refuses requests of other sites: Prefect's server
would accept them from every page that is open in a browser on this machine, and by every host name.
"""

import sys
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import cast

from flows.host.new_database import provide_database
from flows.services.local_http import cross_site_reason, listen_on

Message = MutableMapping[str, object]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
AsgiApp = Callable[[Message, Receive, Send], Awaitable[None]]

_Headers = Iterable[tuple[bytes, bytes]]

_NO_FRAME = (b"content-security-policy", b"frame-ancestors 'self'")
"""Prevents clickjacking: another site could show Prefect's buttons in an invisible frame."""


def refuse_other_sites(app: AsgiApp) -> AsgiApp:
    """Wrap the application: requests of pages of other sites get status 403."""

    async def serve(scope: Message, receive: Receive, send: Send) -> None:
        async def send_unframed(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*cast("_Headers", message["headers"]), _NO_FRAME]
            await send(message)

        if scope["type"] == "lifespan":
            await app(scope, receive, send)
        elif (reason := _refusal(scope)) is None:
            await app(scope, receive, send_unframed)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close"})  # closed before it is accepted: status 403
        else:
            headers = [(b"content-type", b"text/plain; charset=utf-8")]
            await send({"type": "http.response.start", "status": 403, "headers": headers})
            await send({"type": "http.response.body", "body": f"refused: {reason}\n".encode()})

    return serve


def _refusal(scope: Message) -> str | None:
    raw = cast("_Headers", scope["headers"])  # names are in lower case, says ASGI
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in raw}
    # A websocket has no method; it counts as a request that changes something.
    return cross_site_reason(str(scope.get("method")), headers)


def main() -> None:
    """Serve until SIGTERM or SIGINT."""
    listening = listen_on("127.0.0.1", int(sys.argv[1]))  # before the imports, which take seconds

    import uvicorn
    from prefect.server.api.server import create_app
    from prefect.settings import get_current_settings

    provide_database(get_current_settings().home / "prefect.db")
    settings = get_current_settings().server
    config = uvicorn.Config(
        refuse_other_sites(create_app(final=True)),
        timeout_keep_alive=settings.api.keepalive_timeout,
        ws_ping_interval=settings.api.websocket_ping_interval,
        ws_ping_timeout=settings.api.websocket_ping_timeout,
        log_level=settings.logging_level.lower(),
    )
    with listening:
        uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main()
