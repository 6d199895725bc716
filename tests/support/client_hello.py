"""How a TLS client says hello, as bytes."""

import ssl
from contextlib import suppress


def hello_for(name: str | None) -> bytes:
    """A real ClientHello."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    said = ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), said, server_hostname=name).do_handshake()
    return said.read()


def with_extension(hello: bytes, kind: int, data: bytes) -> bytes:
    """The same ClientHello with one extension more; all its lengths are right."""
    extra = kind.to_bytes(2, "big") + len(data).to_bytes(2, "big") + data
    body = hello[9:]
    at = 34
    at += 1 + body[at]
    at += 2 + int.from_bytes(body[at : at + 2], "big")
    at += 1 + body[at]
    size = int.from_bytes(body[at : at + 2], "big") + len(extra)
    body = body[:at] + size.to_bytes(2, "big") + body[at + 2 :] + extra
    message = b"\x01" + len(body).to_bytes(3, "big") + body
    return b"\x16\x03\x01" + len(message).to_bytes(2, "big") + message
