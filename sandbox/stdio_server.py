"""A server in a sandbox that talks on its standard streams, connected to a socket on the host."""

import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import NamedTuple

from contracts.errors import SandboxLost
from contracts.sandbox import Command, OnOutput, Sandbox

_BRIDGE = """
import os, socket, sys
link = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
os.dup2(link.fileno(), 0)
os.dup2(link.fileno(), 1)
try:
    os.execvp(sys.argv[2], sys.argv[2:])
except OSError as error:
    sys.exit(f"{sys.argv[2]}: {error.strerror}")
"""
"""Replaces itself by the server, with one connection as its input and output: unlike a command's
input, the host writes to it whenever it has something to say."""

_END_S = 5.0
_KEPT = 2_000
"""Bytes of the end of the error output that are kept."""


class StdioServer(NamedTuple):
    """A running server: its connection, and the end of its error output.

    `last_words` waits a moment for a server that is about to end: its connection ends first.
    """

    connection: socket.socket
    last_words: Callable[[], str]


@contextmanager
def stdio_server(
    sandbox: Sandbox, argv: Sequence[str], env: Mapping[str, str]
) -> Iterator[StdioServer]:
    """Run a server until the block ends, which tears the sandbox down with it.

    The connection ends when the server does.

    Raises:
        SandboxLost: the sandbox is gone.
    """
    ours, theirs = socket.socketpair()
    waiting = [theirs]

    def connect() -> socket.socket:
        if not waiting:
            raise ConnectionRefusedError("the server is connected already")
        return waiting.pop()

    kept, add = _tail()
    ended = threading.Event()

    def last_words() -> str:
        ended.wait(_END_S)
        return kept()

    port = sandbox.forward(0, connect)
    bridge = ("python3", "-I", "-S", "-c", _BRIDGE, str(port), *argv)

    def run() -> None:
        try:
            sandbox.exec(Command(argv=bridge, env=env), add)
        except SandboxLost:
            pass  # the block has ended, or the connection breaks with it
        finally:
            ended.set()
            for unused in waiting:
                unused.close()

    with ThreadPoolExecutor(1, thread_name_prefix="stdio-server") as thread:
        thread.submit(run)
        try:
            yield StdioServer(ours, last_words)
        finally:
            ours.close()
            sandbox.teardown()


def _tail() -> tuple[Callable[[], str], OnOutput]:
    kept = bytearray()

    def add(_: str, chunk: bytes) -> None:
        kept.extend(chunk)
        del kept[:-_KEPT]

    return lambda: kept.decode("utf-8", "replace").strip(), add
