"""The gateway as a process: bound to a place of its own, until it is told to end."""

import gc
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import uvicorn
from starlette.applications import Starlette

_BACKLOG = 256
_SWITCH_S = 0.002
"""How long one thread may keep the others waiting: a byte of one must not wait for another's,
and at half of this a streamed answer takes 2 ms longer for all the changes."""

_GARBAGE = (10_000, 20, 50)
"""When to search for garbage: seldom through everything, which stops all threads for 30 ms."""


def serve(app: Starlette, place: str, *, ready: Callable[[str], None] = lambda _: None) -> None:
    """Serve until SIGTERM or SIGINT; `ready` gets the address as soon as it takes requests.

    `place` is `127.0.0.1:4180` (port 0: a free one), or the path of a socket, which only
    this user can open.

    Raises:
        OSError: the place is taken.
    """
    sys.setswitchinterval(_SWITCH_S)
    gc.set_threshold(*_GARBAGE)
    with listen(place) as listening:
        server = uvicorn.Server(uvicorn_config(app))
        ready(url_of(listening))
        server.run(sockets=[listening])


def listen(place: str) -> socket.socket:
    """A listening socket at `place`; an old socket file there is replaced."""
    host, colon, port = place.rpartition(":")
    if colon and port.isdigit():
        listening = socket.create_server((host, int(port)), backlog=_BACKLOG)
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listening
    path = Path(place)
    path.unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX)
    before = os.umask(0o177)
    try:
        listening.bind(place)
    finally:
        os.umask(before)
    listening.listen(_BACKLOG)
    return listening


def url_of(listening: socket.socket) -> str:
    """What a client calls this place."""
    name = listening.getsockname()
    return f"unix://{name}" if isinstance(name, str) else f"http://{name[0]}:{name[1]}"


def uvicorn_config(app: Starlette) -> uvicorn.Config:
    """How uvicorn serves: quietly, and with time to end what is under way."""
    return uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        lifespan="on",
        timeout_keep_alive=75,
        timeout_graceful_shutdown=5,
    )
