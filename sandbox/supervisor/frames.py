"""The frames of the stream between harness and supervisor, for both ends."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterator

HEADER = struct.Struct(">BBII")
"""Magic number, kind, channel, and length of the payload that follows."""
MAGIC = 0xA7
HELLO_PAYLOAD = struct.Struct(">dI")
"""Payload of a HELLO: seconds until the sandbox ends, and its disk limit in MiB."""
HELLO, RUN, INPUT, TAKEN, STOP, STDOUT, STDERR, DONE = range(1, 9)
MAX_REQUEST = 16 << 20
WINDOW = 4 << 20
"""Bytes of a job's output that the supervisor sends before it waits for TAKEN."""
INPUT_WINDOW = 1 << 20
"""Bytes of a job's input that the harness sends before it waits for TAKEN."""
CHUNK = 1 << 16
REASON = 500
"""Characters of a reason that are kept at its beginning, and at its end."""


def shorten(reason: str) -> str:
    """Return a long reason without its middle."""
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
