"""What both ends of the stream know: the frames, and how bytes are moved whole."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterator

HEADER = struct.Struct(">BBII")
"""Magic, kind, channel, length of the payload that follows."""
MAGIC = 0xA7
HELLO, RUN, INPUT, TAKEN, STOP, STDOUT, STDERR, DONE = range(1, 9)
MAX_REQUEST = 16 << 20
WINDOW = 4 << 20
"""Bytes of a job's output that may be under way before the harness says TAKEN."""
INPUT_WINDOW = 1 << 20
"""The same of its input, which waits inside the container."""
CHUNK = 1 << 16


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
