"""The frames of the supervisor's stream, and the Docker daemon's frames around them."""

import json
import struct
from collections.abc import Iterator
from typing import NamedTuple

from contracts.errors import SandboxLost
from sandbox.supervisor.frames import CHUNK, DONE, HEADER, HELLO, MAGIC

MAX_FRAME = 2 * CHUNK
"""Largest frame that is accepted; the supervisor sends at most `CHUNK`, or a short report."""

_DOCKER_HEADER = struct.Struct(">BxxxI")
DOCKER_STDOUT, DOCKER_STDERR = 1, 2


class Frame(NamedTuple):
    """One message on one channel."""

    kind: int
    channel: int
    payload: bytes


def encode(kind: int, channel: int, payload: bytes = b"") -> bytes:
    """Return a frame as bytes."""
    return HEADER.pack(MAGIC, kind, channel, len(payload)) + payload


def chunks(data: bytes) -> Iterator[bytes]:
    """Yield the data in pieces that fit a frame."""
    view = memoryview(data)
    for start in range(0, len(data), CHUNK):
        yield bytes(view[start : start + CHUNK])


def parse_json_object(payload: bytes | bytearray, name: str) -> dict[str, object]:
    """Parse a JSON object from the supervisor; `name` is for the error message.

    Raises:
        SandboxLost: the payload is not a JSON object.
    """
    try:
        found = json.loads(payload)
    except (ValueError, RecursionError) as error:
        quoted = bytes(payload[:200])
        raise SandboxLost(f"the supervisor's {name} is no JSON: {quoted!r}") from error
    if not isinstance(found, dict):
        raise SandboxLost(f"the supervisor's {name} is no object: {bytes(payload[:200])!r}")
    return found


class FrameReader:
    """Splits the supervisor's bytes into frames, whatever the pieces; copies each payload once."""

    def __init__(self) -> None:
        self._header = b""
        self._parts: list[memoryview] = []
        self._missing = 0

    def feed(self, data: bytes | memoryview) -> Iterator[Frame]:
        """Yield the frames that are complete.

        Raises:
            SandboxLost: the bytes are not valid frames.
        """
        view = memoryview(data)
        while view:
            if not self._missing:
                rest = HEADER.size - len(self._header)
                self._header += view[:rest]
                view = view[rest:]
                if len(self._header) < HEADER.size:
                    return
                self._missing = _size(self._header)
            part = view[: self._missing]
            view = view[len(part) :]
            self._missing -= len(part)
            self._parts.append(part)
            if not self._missing:
                _, kind, channel, _ = HEADER.unpack(self._header)
                payload = b"".join(self._parts)
                self._header, self._parts = b"", []
                yield Frame(kind, channel, payload)

    def end(self) -> None:
        """Check that the stream did not end inside a frame.

        Raises:
            SandboxLost: it ended inside a frame.
        """
        if self._header:
            held = len(self._header) + sum(map(len, self._parts))
            raise SandboxLost(f"the stream ended inside a frame, after {held} bytes")


def _size(header: bytes) -> int:
    magic, kind, _, size = HEADER.unpack(header)
    if magic != MAGIC or not HELLO <= kind <= DONE or size > MAX_FRAME:
        raise SandboxLost(f"the supervisor sent no frame but {header!r}")
    return int(size)


class DockerReader:
    """Removes the Docker daemon's frames; yields the number of the stream and its bytes."""

    def __init__(self) -> None:
        self._header = b""
        self._stream = 0
        self._left = 0

    def feed(self, data: bytes) -> Iterator[tuple[int, memoryview]]:
        """Yield each piece, not copied, with the number of its stream.

        Raises:
            SandboxLost: the bytes are not a Docker stream.
        """
        view = memoryview(data)
        while view:
            if not self._left:
                missing = _DOCKER_HEADER.size - len(self._header)
                self._header += view[:missing]
                view = view[missing:]
                if len(self._header) == _DOCKER_HEADER.size:
                    self._begin(self._header)
                continue
            piece = view[: self._left]
            self._left -= len(piece)
            view = view[len(piece) :]
            yield self._stream, piece

    def _begin(self, header: bytes) -> None:
        self._stream, self._left = _DOCKER_HEADER.unpack(header)
        self._header = b""
        if self._stream not in (DOCKER_STDOUT, DOCKER_STDERR):
            raise SandboxLost(f"the docker daemon sent no stream but {header!r}")
