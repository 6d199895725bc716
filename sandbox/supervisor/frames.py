"""What both ends of the stream know: the frames, and how bytes are moved whole."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterator

HEADER = struct.Struct(">BBII")
"""Magic, kind, channel, length of the payload that follows."""
MAGIC = 0xA7
HELLO_PAYLOAD = struct.Struct(">dI")
"""Of a HELLO: the seconds until the end, and the MiB that all files may take."""
HELLO, RUN, INPUT, TAKEN, STOP, STDOUT, STDERR, DONE = range(1, 9)
MAX_REQUEST = 16 << 20
WINDOW = 4 << 20
"""Bytes of a job's output that may be under way before the harness says TAKEN."""
INPUT_WINDOW = 1 << 20
"""The same of its input, which waits inside the container."""
CHUNK = 1 << 16
REASON = 500
"""Characters of a reason that are told, from its beginning and from its end."""


def shorten(reason: str) -> str:
    """A reason without the middle of what it quotes, where that is long."""
    return reason if len(reason) <= 2 * REASON else f"{reason[:REASON]}...{reason[-REASON:]}"


def write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def read_exactly(fd: int, size: int) -> Iterator[bytes]:
    while size:
        data = os.read(fd, min(size, CHUNK))
        if not data:
            raise OSError(errno.EPIPE, "the input ended early")
        size -= len(data)
        yield data
