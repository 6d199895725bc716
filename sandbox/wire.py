"""The supervisor's stream on the host: its frames, reports and flow control.

The supervisor is not trusted: a command may have taken it over. It can lose its own sandbox, but
neither fill the memory of this process nor make it wait without end.
"""

import struct
import threading
from collections.abc import Iterator
from queue import SimpleQueue
from typing import NamedTuple

from pydantic import BaseModel, ValidationError

from contracts.errors import SandboxLost
from contracts.sandbox import OpenInput
from sandbox.supervisor.frames import (
    CHUNK,
    DONE,
    HEADER,
    HELLO,
    INPUT,
    INPUT_WINDOW,
    MAGIC,
    TAKEN,
    WINDOW,
)

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


def _chunks(data: bytes) -> Iterator[bytes]:
    """Yield the data in pieces that fit a frame."""
    view = memoryview(data)
    for start in range(0, len(data), CHUNK):
        yield bytes(view[start : start + CHUNK])


class Report(BaseModel, frozen=True, strict=True):
    """The supervisor's last word on a request. `error` is set for tasks and ports."""

    exit_code: int = 0
    duration_ms: int = 0
    timed_out: bool = False
    stuck: bool = False
    out_of_memory: bool = False
    out_of_disk: bool = False
    out_of_processes: bool = False
    disturbed: bool = False
    killed_children: int = 0
    launch_error: str | None = None
    error: str | None = None
    errno: str | None = None


def parse_report(payload: bytes | bytearray) -> Report:
    """Return the report in a payload.

    Raises:
        SandboxLost: the payload is not a report as JSON.
    """
    try:
        return Report.model_validate_json(payload)
    except ValidationError as error:
        start = bytes(payload[:200])
        raise SandboxLost(f"the supervisor sent no report but {start!r}") from error


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
    # A length is checked before any byte of it is read: four bytes can claim 4 GiB.
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


class ReceiveQueue:
    """Frames that one channel received and its reader has not taken; at most `window` bytes."""

    def __init__(self, window: int = WINDOW) -> None:
        self._window = window
        self._frames: SimpleQueue[Frame | None] = SimpleQueue()
        self._received = 0
        self._taken = 0
        self._unacknowledged = 0

    def put(self, frame: Frame) -> None:
        """Add a frame; called only by the thread that reads the stream."""
        self._received += len(frame.payload)
        # Empty frames count too: they take memory without any byte of payload.
        waiting = max(self._received - self._taken, self._frames.qsize())
        if waiting > self._window + CHUNK:
            raise SandboxLost("the supervisor sends more than it was asked for")
        self._frames.put(frame)

    def get(self, timeout: float | None = None) -> Frame | None:
        """Return the next frame, or None after the last; called by one thread per channel.

        Raises:
            Empty: nothing came within `timeout` seconds.
        """
        frame = self._frames.get(timeout=timeout)
        if frame is not None:
            self._taken += len(frame.payload)
        return frame

    def end(self) -> None:
        """Mark the end: no frame follows."""
        self._frames.put(None)

    def acknowledge(self, channel: int, size: int) -> bytes:
        """Count bytes as taken; return the TAKEN frame to send, or nothing for a few bytes."""
        self._unacknowledged += size
        # A frame for each read would double the number of frames of a busy stream.
        if self._unacknowledged < self._window // 4:
            return b""
        size, self._unacknowledged = self._unacknowledged, 0
        return encode(TAKEN, channel, size.to_bytes(4, "big"))


class InputSender:
    """The input of a command, cut into frames as fast as the supervisor takes it."""

    def __init__(self, source: OpenInput, channel: int) -> None:
        self._source = source
        self._channel = channel
        self._credit = INPUT_WINDOW
        self._ended = source.ended

    def add_credit(self, size: int) -> None:
        """The supervisor has room for so many more bytes."""
        self._credit += size

    def frames(self) -> bytes:
        """Return what can be sent now as frames, with the end mark after the last."""
        if self._ended:
            return b""
        part = self._source.take(self._credit)
        self._credit -= len(part)
        self._ended = self._source.ended
        framed = b"".join(encode(INPUT, self._channel, piece) for piece in _chunks(part))
        return framed + encode(INPUT, self._channel) if self._ended else framed


class SendCredit:
    """The number of bytes that the other side still has room for."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._open = True
        self._changed = threading.Condition()

    def wait(self) -> int:
        """Wait until there is room and return it; 0 when it was closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._size or not self._open)
            return self._size if self._open else 0

    def add(self, size: int) -> None:
        with self._changed:
            self._size += size
            self._changed.notify()

    def spend(self, size: int) -> None:
        with self._changed:
            self._size -= size

    def close(self) -> None:
        with self._changed:
            self._open = False
            self._changed.notify()
