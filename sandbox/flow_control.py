"""Nobody is sent more than there is room for: what waits on one channel, either way."""

import threading
from queue import SimpleQueue

from contracts.errors import SandboxLost
from sandbox import wire
from sandbox.supervisor.frames import CHUNK, INPUT, TAKEN, WINDOW
from sandbox.wire import Frame


class ReceiveQueue:
    """What one channel has received and not yet taken, `window` bytes at most."""

    def __init__(self, window: int = WINDOW) -> None:
        self._window = window
        self._frames: SimpleQueue[Frame | None] = SimpleQueue()
        self._received = 0
        self._given = 0
        self._untold = 0

    def put(self, frame: Frame) -> None:
        """Add a frame; called by the reader only."""
        self._received += len(frame.payload)
        waiting = max(self._received - self._given, self._frames.qsize())
        if waiting > self._window + CHUNK:
            raise SandboxLost("the supervisor sends more than it was asked for")
        self._frames.put(frame)

    def get(self, timeout: float | None = None) -> Frame | None:
        """The next frame, None after the last; called by the channel's one taker.

        Raises:
            Empty: nothing came within `timeout` seconds.
        """
        frame = self._frames.get(timeout=timeout)
        if frame is not None:
            self._given += len(frame.payload)
        return frame

    def end(self) -> None:
        """Say that nothing comes any more."""
        self._frames.put(None)

    def acknowledge(self, channel: int, size: int) -> bytes:
        """Count what was taken; gives the frame that tells it when it is worth telling."""
        self._untold += size
        if self._untold < self._window // 4:
            return b""
        untold, self._untold = self._untold, 0
        return wire.encode(TAKEN, channel, untold.to_bytes(4, "big"))


class InputSender:
    """Input on its way in, sent only as fast as the supervisor takes it."""

    def __init__(self, data: bytes) -> None:
        self._view = memoryview(data)
        self._ended = not data

    def frames(self, channel: int, size: int) -> bytes:
        """The next `size` bytes as frames, and the end mark after the last."""
        if self._ended:
            return b""
        part, self._view = self._view[:size], self._view[size:]
        self._ended = not self._view
        framed = b"".join(wire.encode(INPUT, channel, piece) for piece in wire.chunks(bytes(part)))
        return framed + wire.encode(INPUT, channel) if self._ended else framed


class SendCredit:
    """How many bytes the other side still has room for."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._open = True
        self._changed = threading.Condition()

    def wait(self) -> int:
        """The room there is, once there is any; 0 when it was closed."""
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
