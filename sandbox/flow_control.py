"""Flow control of one channel: neither side sends more than the other has room for."""

import threading
from queue import SimpleQueue

from contracts.errors import SandboxLost
from sandbox import wire
from sandbox.supervisor.frames import CHUNK, INPUT, TAKEN, WINDOW
from sandbox.wire import Frame


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
        if self._unacknowledged < self._window // 4:
            return b""
        size, self._unacknowledged = self._unacknowledged, 0
        return wire.encode(TAKEN, channel, size.to_bytes(4, "big"))


class InputSender:
    """The input of a command, cut into frames as fast as the supervisor takes it."""

    def __init__(self, data: bytes) -> None:
        self._view = memoryview(data)
        self._ended = not data

    def frames(self, channel: int, size: int) -> bytes:
        """Return the next `size` bytes as frames, with the end mark after the last."""
        if self._ended:
            return b""
        part, self._view = self._view[:size], self._view[size:]
        self._ended = not self._view
        framed = b"".join(wire.encode(INPUT, channel, piece) for piece in wire.chunks(bytes(part)))
        return framed + wire.encode(INPUT, channel) if self._ended else framed


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
