"""What a client of a forward proxy asks for: one request head, read strictly."""

import re
import socket
import time
from typing import NamedTuple

HEAD_LIMIT = 16 * 1024
"""Bytes of one request head."""

_CONNECT = re.compile(r"CONNECT ([^\s/@]{1,255}):([0-9]{1,5}) HTTP/1\.[01]")
_FETCH = re.compile(
    r"(GET|HEAD) http://([^\s/?#@:]{1,255})(?::([0-9]{1,5}))?(/[!-~]*)? HTTP/1\.[01]"
)
_FIELD = re.compile(r"([!#$%&'*+.^_`|~\w-]+):[ \t]*([^\x00-\x08\x0a-\x1f\x7f]*)", re.ASCII)
_OWN = re.compile(r"host|connection|keep-alive|te|trailer|upgrade|proxy-.*", re.IGNORECASE)
_BODY = re.compile(r"content-length|transfer-encoding|expect", re.IGNORECASE)


class InvalidRequest(ValueError):
    """What the client sent is no request that a forward proxy takes."""


class ProxyRequest(NamedTuple):
    """A request: where it goes, and for plain HTTP the head that is sent there."""

    host: str
    port: int
    plain: bytes | None = None
    """None when the client asks for a tunnel."""


def read_request(client: socket.socket, *, within_s: float) -> ProxyRequest:
    """The request head that the client sends; what follows it is dropped.

    Raises:
        BadHead: it is not HTTP, not a request for a proxy, has a body or is too long.
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
    """Some bytes.

    Raises:
        OSError: none came before the deadline, or the client hung up.
    """
    client.settimeout(max(0.001, deadline - time.monotonic()))
    data = client.recv(HEAD_LIMIT)
    if not data:
        raise ConnectionError("the client hung up")
    return data


def parse_request(text: str) -> ProxyRequest:
    """The request of a head without its last empty line.

    Raises:
        BadHead: see `read_head`.
    """
    first, *lines = text.split("\r\n")
    if asked := _CONNECT.fullmatch(first):
        return ProxyRequest(asked[1].lower(), _port(asked[2]))
    asked = _FETCH.fullmatch(first)
    if asked is None:
        raise InvalidRequest("only CONNECT, and GET and HEAD of an http:// URL, lead out")
    host, port = asked[2].lower(), _port(asked[3] or "80")
    where = host if port == 80 else f"{host}:{port}"
    sent = [f"{asked[1]} {asked[4] or '/'} HTTP/1.1", f"Host: {where}", "Connection: close"]
    sent += [line for line in lines if _is_sent(line)]
    return ProxyRequest(host, port, "\r\n".join((*sent, "", "")).encode("latin-1"))


def _is_sent(line: str) -> bool:
    """Whether a header field goes on to the server."""
    field = _FIELD.fullmatch(line)
    if field is None:
        raise InvalidRequest("a header field is malformed")
    if _BODY.fullmatch(field[1]):
        raise InvalidRequest("a request that leads out must have no body")
    return not _OWN.fullmatch(field[1])


def _port(digits: str) -> int:
    if not 0 < int(digits) < 65536:
        raise InvalidRequest(f"{digits} is no port")
    return int(digits)
