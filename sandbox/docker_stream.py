"""A byte stream to a process in a container, over the Docker daemon's own socket.

docker-py loses output on such streams: it skips bytes that were buffered with the header of the
response. This module has the part of HTTP that the daemon's protocol upgrade needs.
"""

import errno
import json
import select
import socket
import ssl
import threading
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Protocol
from urllib.parse import urlsplit

from contracts.errors import DockerUnavailable, SandboxLost

RECEIVE = 1 << 18
_CONNECT_TIMEOUT_S = 30.0
_MAX_HEADER = 1 << 16


class EngineAddress(NamedTuple):
    """The address of a Docker daemon. `url` is unix://, tcp:// or https://."""

    url: str
    ca_cert: str | None = None
    client_cert: tuple[str, str] | None = None
    verify: bool = True


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

    def __init__(self, connection: ssl.SSLSocket) -> None:
        connection.setblocking(False)
        self._socket = connection
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
        with self._session:
            self._socket.close()


def _wait(connection: socket.socket, event: int) -> None:
    """Wait for the event by `poll`: `select` takes no descriptor over 1023."""
    poll = select.poll()
    try:
        poll.register(connection, event)
    except ValueError as error:
        raise OSError(errno.EBADF, "closed here") from error
    poll.poll()


def engine_unreachable(url: str, error: Exception) -> DockerUnavailable:
    """Return the error for an address where no engine answers."""
    return DockerUnavailable(
        f"no Docker engine answers at {url} ({error}): "
        "start it (`make setup` does), or set DOCKER_HOST"
    )


def check_reachable(address: EngineAddress) -> None:
    """Connect and hang up.

    Raises:
        DockerUnavailable: no engine answers at the address.
    """
    _reach(address).close()


def open_stream(address: EngineAddress, path: str) -> tuple[ByteStream, bytes]:
    """Open a stream by this path of the daemon's API; return it with the bytes that arrived.

    Raises:
        DockerUnavailable: no engine answers at the address.
        SandboxLost: the daemon refuses.
    """
    connection = _reach(address)
    try:
        connection.sendall(_upgrade_request(path))
        status, rest = _read_response(connection)
        if " 101 " not in status and " 200 " not in status:
            raise SandboxLost(f"wanted a stream into the container, the daemon said {status!r}")
        connection.settimeout(None)
    except OSError as error:
        connection.close()
        raise SandboxLost(f"the daemon broke off the stream: {error}") from error
    except SandboxLost:
        connection.close()
        raise
    if isinstance(connection, ssl.SSLSocket):
        return TlsStream(connection), rest
    return PlainStream(connection), rest


def _reach(address: EngineAddress) -> socket.socket:
    try:
        return _connect(address)
    except OSError as error:
        raise engine_unreachable(address.url, error) from error


def _connect(address: EngineAddress) -> socket.socket:
    parts = urlsplit(address.url)
    if parts.scheme in ("unix", "http+unix"):
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(_CONNECT_TIMEOUT_S)
        try:
            connection.connect(str(Path(parts.netloc + parts.path)))
        except OSError:
            connection.close()
            raise
        return connection
    if parts.scheme not in ("tcp", "http", "https") or parts.hostname is None:
        raise OSError("only unix://, tcp:// and TLS addresses can carry a sandbox's stream")
    place = (parts.hostname, parts.port or 2375)
    connection = socket.create_connection(place, timeout=_CONNECT_TIMEOUT_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if parts.scheme != "https":
        return connection
    try:
        return _tls(address).wrap_socket(connection, server_hostname=parts.hostname)
    except OSError:
        connection.close()
        raise


def _tls(address: EngineAddress) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=address.ca_cert)
    if not address.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if address.client_cert:
        context.load_cert_chain(*address.client_cert)
    return context


def _upgrade_request(path: str) -> bytes:
    body = json.dumps({"Detach": False, "Tty": False})
    return (
        f"POST {path} HTTP/1.1\r\nHost: docker\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}"
    ).encode()


def _read_response(connection: socket.socket) -> tuple[str, bytes]:
    """Return the status line, and the bytes after the header."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = connection.recv(4096)
        if not more or len(data) > _MAX_HEADER:
            raise SandboxLost(f"the daemon's answer to the upgrade is cut short: {data[:200]!r}")
        data += more
    header, _, rest = data.partition(b"\r\n\r\n")
    return header.split(b"\r\n")[0].decode("latin-1"), rest
