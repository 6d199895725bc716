"""The first bytes of a client of the egress proxy: an HTTP request head, and a TLS ClientHello."""

import re
import socket
import time
from collections.abc import Iterator
from typing import NamedTuple

HEAD_LIMIT = 16 * 1024
"""Bytes of one request head."""

_CONNECT = re.compile(r"CONNECT ([^\s/@]{1,255}):([0-9]{1,5}) HTTP/1\.[01]")
_FETCH = re.compile(
    r"(GET|HEAD) http://([^\s/?#@:]{1,255})(?::([0-9]{1,5}))?(/[!-~]*)? HTTP/1\.[01]"
)
_FIELD = re.compile(r"([!#$%&'*+.^_`|~\w-]+):[ \t]*([^\x00-\x08\x0a-\x1f\x7f]*)", re.ASCII)
# Not forwarded: hop-by-hop fields concern this proxy, and Host is set from the URL.
_OWN = re.compile(r"host|connection|keep-alive|te|trailer|upgrade|proxy-.*", re.IGNORECASE)
# Two parties that read the length of a body differently can smuggle a request past the proxy.
_BODY = re.compile(r"content-length|transfer-encoding|expect", re.IGNORECASE)

HELLO_LIMIT = 1 << 16
"""Bytes of a ClientHello that are read; real ones have about two thousand."""

_HANDSHAKE, _CLIENT_HELLO = 22, 1
_SERVER_NAME, _ENCRYPTED_HELLO = 0, 0xFE0D


class InvalidRequest(ValueError):
    """The client sent no request that a forward proxy takes."""


class ProxyRequest(NamedTuple):
    """Host and port of a request, and for plain HTTP the request head to send there."""

    host: str
    port: int
    plain: bytes | None = None
    """None if the client wants a tunnel."""


def read_request(client: socket.socket, *, within_s: float) -> ProxyRequest:
    """Read the client's request head; bytes after it are dropped.

    Raises:
        InvalidRequest: it is not HTTP, not a request for a proxy, has a body or is too long.
        OSError: the client hung up, or took longer.
    """
    deadline, data = time.monotonic() + within_s, b""
    while b"\r\n\r\n" not in data and len(data) <= HEAD_LIMIT:
        data += receive(client, deadline)
    head = data.partition(b"\r\n\r\n")[0]
    if len(head) > HEAD_LIMIT:
        raise InvalidRequest(f"the request's head is longer than {HEAD_LIMIT} bytes")
    return parse_request(head.decode("latin-1"))


def receive(client: socket.socket, deadline: float) -> bytes:
    """Return some bytes.

    Raises:
        OSError: none came before the deadline, or the client hung up.
    """
    client.settimeout(max(0.001, deadline - time.monotonic()))
    data = client.recv(HEAD_LIMIT)
    if not data:
        raise ConnectionError("the client hung up")
    return data


def parse_request(text: str) -> ProxyRequest:
    """Parse a request head, decoded as latin-1, without its final empty line.

    Raises:
        InvalidRequest: see `read_request`.
    """
    first, *lines = text.split("\r\n")
    if tunnel := _CONNECT.fullmatch(first):
        return ProxyRequest(tunnel[1].lower(), _port(tunnel[2]))
    fetch = _FETCH.fullmatch(first)
    if fetch is None:
        raise InvalidRequest("only CONNECT, and GET and HEAD of an http:// URL, are allowed")
    host, port = fetch[2].lower(), _port(fetch[3] or "80")
    where = host if port == 80 else f"{host}:{port}"
    sent = [f"{fetch[1]} {fetch[4] or '/'} HTTP/1.1", f"Host: {where}", "Connection: close"]
    sent += [line for line in lines if _is_sent(line)]
    return ProxyRequest(host, port, "\r\n".join((*sent, "", "")).encode("latin-1"))


def _is_sent(line: str) -> bool:
    """Return whether a header field is forwarded to the server."""
    field = _FIELD.fullmatch(line)
    if field is None:
        raise InvalidRequest("a header field is malformed")
    if _BODY.fullmatch(field[1]):
        raise InvalidRequest("a request through the proxy must have no body")
    return not _OWN.fullmatch(field[1])


def _port(digits: str) -> int:
    if not 0 < int(digits) < 65536:
        raise InvalidRequest(f"{digits} is no port")
    return int(digits)


class InvalidClientHello(ValueError):
    """The bytes are no ClientHello, or it names no server in clear text."""


def server_name(data: bytes) -> str | None:
    """Return the server name in a ClientHello, in lower case; None while more bytes are needed.

    Raises:
        InvalidClientHello: no TLS, no server name, or a hidden one.
    """
    hello = _hello(data)
    if hello is None:
        if len(data) > HELLO_LIMIT:
            raise InvalidClientHello("its ClientHello does not end")
        return None
    try:
        return _name(dict(_extensions(hello)))
    except (IndexError, UnicodeDecodeError) as error:
        raise InvalidClientHello("its ClientHello is malformed") from error


def _hello(data: bytes) -> bytes | None:
    """Return the ClientHello's body, joined from its records."""
    message = b""
    while len(data) >= 5:
        if data[0] != _HANDSHAKE or data[1] != 3:
            raise InvalidClientHello("it does not speak TLS")
        size = int.from_bytes(data[3:5], "big")
        message, data = message + data[5 : 5 + size], data[5 + size :]
        if message and message[0] != _CLIENT_HELLO:
            raise InvalidClientHello("it does not begin with a ClientHello")
        end = 4 + int.from_bytes(message[1:4], "big")
        if len(message) >= max(end, 5):
            return message[4:end]
    if data and data[0] != _HANDSHAKE:
        raise InvalidClientHello("it does not speak TLS")
    return None


def _extensions(hello: bytes) -> Iterator[tuple[int, bytes]]:
    fields = _Fields(hello)
    fields.take(2 + 32)
    fields.sized(1)
    fields.sized(2)
    fields.sized(1)
    extensions, seen = _Fields(fields.sized(2)), set[int]()
    while extensions.left:
        kind = int.from_bytes(extensions.take(2), "big")
        if kind in seen:
            raise InvalidClientHello("its ClientHello repeats an extension")
        seen.add(kind)
        yield kind, extensions.sized(2)


def _name(extensions: dict[int, bytes]) -> str:
    if _ENCRYPTED_HELLO in extensions:
        raise InvalidClientHello("its ClientHello hides the real name (ECH)")
    if _SERVER_NAME not in extensions:
        raise InvalidClientHello("its ClientHello names no server (SNI)")
    names = _Fields(_Fields(extensions[_SERVER_NAME]).sized(2))
    kind, name = names.take(1), names.sized(2)
    if kind != b"\0" or names.left:
        raise InvalidClientHello("its ClientHello names more than one server")
    return name.decode("ascii").lower()


class _Fields:
    """Reads fields from the front of bytes; raises IndexError where they end too early."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    @property
    def left(self) -> int:
        return len(self._data)

    def take(self, size: int) -> bytes:
        if size > len(self._data):
            raise IndexError(size)
        taken, self._data = self._data[:size], self._data[size:]
        return taken

    def sized(self, width: int) -> bytes:
        """Return the field that follows its length of `width` bytes."""
        return self.take(int.from_bytes(self.take(width), "big"))
