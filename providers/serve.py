"""Serves an ASGI app on a port of this machine until the process is told to end."""

import socket
from collections.abc import Callable

import uvicorn
from starlette.applications import Starlette

_BACKLOG = 256


def serve(app: Starlette, place: str, *, ready: Callable[[str], None] = lambda _: None) -> None:
    """Serve until SIGTERM or SIGINT; `ready` gets the URL as soon as connections are accepted.

    `place` is `127.0.0.1:4180`; port 0 takes a free one.

    Raises:
        OSError: the port is taken.
    """
    with listen(place) as listener:
        ready(url_of(listener))
        uvicorn.Server(uvicorn_config(app)).run(sockets=[listener])


def listen(place: str) -> socket.socket:
    """Return a socket that listens at `host:port`."""
    host, _, port = place.rpartition(":")
    listener = socket.create_server((host, int(port)), backlog=_BACKLOG)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # events are sent one by one
    return listener


def url_of(listener: socket.socket) -> str:
    """Return the URL that clients use."""
    host, port = listener.getsockname()
    return f"http://{host}:{port}"


def uvicorn_config(app: Starlette) -> uvicorn.Config:
    """Return a configuration without access log, with 5 s for requests under way at the end."""
    return uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        lifespan="on",
        timeout_keep_alive=75,
        timeout_graceful_shutdown=5,
    )
