"""The name that a TLS client asks for, read from its first message. Pure."""

from collections.abc import Iterator

HELLO_LIMIT = 1 << 16
"""Bytes of a ClientHello that are read; real ones have about two thousand."""

_HANDSHAKE, _CLIENT_HELLO = 22, 1
_SERVER_NAME, _ENCRYPTED_HELLO = 0, 0xFE0D


class InvalidClientHello(ValueError):
    """The bytes are no ClientHello, or it does not say openly for whom it is."""


def server_name(data: bytes) -> str | None:
    """The server name in a ClientHello, in lower case; None while more bytes are needed.

    Raises:
        NotTls: no TLS, no server name, or a hidden one.
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
    """The ClientHello's body, put together from the records it was cut into."""
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
            raise InvalidClientHello("its ClientHello says something twice")
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
    """Bytes taken from the front; an IndexError where they end too early."""

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
        """What follows a length of `width` bytes."""
        return self.take(int.from_bytes(self.take(width), "big"))
