"""The byte stream to the main process of a container, over the connection to the Docker daemon.

docker-py opens the connection. Its own readers of such streams lose output when several threads
read at once, so the bytes are sent and received here.
"""

import errno
import os
import select
import socket
import ssl
import threading
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING, Protocol

from contracts.errors import DockerUnavailable

if TYPE_CHECKING:
    from docker import DockerClient

RECEIVE = 1 << 18
_ALL_STREAMS = {"stream": 1, "stdin": 1, "stdout": 1, "stderr": 1}


class ByteStream(Protocol):
    """A two-way byte stream; one thread may receive while others send."""

    def send(self, data: bytes) -> None:
        """Send all bytes."""
        ...

    def receive(self) -> bytes:
        """Return some bytes; none after the end of the stream."""
        ...

    def close(self) -> None:
        """Close the stream; a thread that is receiving gets its end."""
        ...


class PlainStream:
    """A stream over a plain socket."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._lock = threading.Lock()

    def send(self, data: bytes) -> None:
        """Send all bytes, not mixed with those of other threads."""
        with self._lock:
            self._socket.sendall(data)

    def receive(self) -> bytes:
        """Return some bytes; none after the end of the stream."""
        return self._socket.recv(RECEIVE)

    def close(self) -> None:
        """Close the stream; a thread that is receiving gets its end."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


class TlsStream:
    """A stream over TLS, whose session only one thread may use at a time."""

    def __init__(self, connection: ssl.SSLSocket, response: AbstractContextManager[object]) -> None:
        connection.setblocking(False)
        self._socket = connection
        self._response = response
        self._session = threading.Lock()
        self._sending = threading.Lock()

    def send(self, data: bytes) -> None:
        """Send all bytes, not mixed with those of other threads."""
        view = memoryview(data)
        with self._sending:
            while view:
                try:
                    with self._session:
                        view = view[self._socket.send(view) :]
                except ssl.SSLWantWriteError:
                    _wait(self._socket, select.POLLOUT)

    def receive(self) -> bytes:
        """Return some bytes; none after the end of the stream."""
        while True:
            try:
                with self._session:
                    return self._socket.recv(RECEIVE)
            except ssl.SSLWantReadError:
                _wait(self._socket, select.POLLIN)

    def close(self) -> None:
        """Close the stream; a thread that is receiving gets its end."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        with self._session, self._response:  # the response holds the socket open too
            self._socket.close()


def _wait(connection: socket.socket, event: int) -> None:
    """Wait for the event by `poll`: `select` takes no descriptor over 1023."""
    poll = select.poll()
    try:
        poll.register(connection, event)
    except ValueError as error:
        raise OSError(errno.EBADF, "closed here") from error
    poll.poll()


def attach(client: "DockerClient", container: str) -> ByteStream:
    """Return the stream to the main process of a container that has not written anything yet.

    Bytes that arrive with the daemon's response would stay in docker-py's buffer. The supervisor
    writes nothing before it gets a hello.
    """
    attached = client.api.attach_socket(container, params=_ALL_STREAMS)
    response = attached._response
    if isinstance(attached, ssl.SSLSocket):
        return TlsStream(attached, response)
    try:
        connection = socket.socket(fileno=os.dup(attached.fileno()))
    except OSError as error:
        raise DockerUnavailable("only unix://, tcp:// and TLS carry a sandbox's stream") from error
    response.close()
    connection.settimeout(None)  # docker-py's limit for a request is in the flags of the socket
    return PlainStream(connection)
