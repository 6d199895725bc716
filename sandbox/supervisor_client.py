"""The host's end of the stream to one supervisor, for many calls at once."""

import json
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import count
from queue import Empty

from contracts.errors import SandboxLost
from contracts.sandbox import OpenInput
from sandbox import wire
from sandbox.docker_stream import ByteStream
from sandbox.supervisor.frames import (
    DONE,
    HELLO,
    HELLO_PAYLOAD,
    MAX_REQUEST,
    RUN,
    STDERR,
    STDOUT,
    STOP,
    TAKEN,
)
from sandbox.supervisor.port_forward import FIRST_CONNECTION
from sandbox.wire import DockerReader, Frame, FrameReader, InputSender, ReceiveQueue, Report

START_TIMEOUT_S = 30.0
GRACE_S = 15.0
"""Seconds after its own time limit that a call waits for the supervisor's report."""

_NOTES_LIMIT = 4096

OnChunk = Callable[[int, bytes], None]


class SupervisorSilent(SandboxLost):
    """The supervisor did not report in time that a command ended; it may still be running."""


class SupervisorClient:
    """Calls to one supervisor, from any number of threads.

    One thread reads the stream and puts frames into the callers' queues. A queue holds at most
    `WINDOW` bytes; then the supervisor waits for TAKEN.
    """

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._channels = count(1)
        self._lock = threading.Lock()
        self._inboxes = {0: ReceiveQueue()}
        self._lost: str | None = None
        self._ttl_s = self._ends_at = math.inf
        self._notes = bytearray()
        self._reader = threading.Thread(target=self._read, name="sandbox-link", daemon=True)
        self._reader.start()

    def send_hello(self, *, ttl_s: float, disk_mb: int) -> None:
        """Send time and disk limit to the supervisor, which may still be starting.

        Raises:
            SandboxLost: the stream ended.
        """
        self._ttl_s, self._ends_at = ttl_s, time.monotonic() + ttl_s
        self.send(wire.encode(HELLO, 0, HELLO_PAYLOAD.pack(ttl_s, disk_mb)))

    def wait_for_hello(self) -> None:
        """Wait for the supervisor's answer; from then on the limits hold.

        Raises:
            SandboxLost: it does not answer.
        """
        frame = self._next(self._inboxes[0], time.monotonic() + START_TIMEOUT_S)
        del self._inboxes[0]
        if frame.kind != HELLO:
            raise SandboxLost(f"the supervisor began with frame {frame.kind}, not with a hello")

    def call(
        self,
        request: Mapping[str, object],
        data: OpenInput,
        on_chunk: OnChunk,
        timeout_s: float | None,
    ) -> Report:
        """Run one request to its end; `on_chunk` sees the output, in this thread.

        Raises:
            SandboxLost: the stream ended.
            SupervisorSilent: the supervisor no longer answers.
            ValueError: the request itself, without its data, is larger than can be sent.
        """
        payload = json.dumps({**request, "timeout_s": timeout_s, "input": not data.ended}).encode()
        if len(payload) > MAX_REQUEST:
            raise ValueError(f"the request is {len(payload)} bytes, wanted up to {MAX_REQUEST}")
        channel, inbox = self._open()
        done = False
        try:
            feed = InputSender(data, channel)
            self.send(wire.encode(RUN, channel, payload) + feed.frames())
            deadline = None if timeout_s is None else time.monotonic() + timeout_s + GRACE_S
            while (frame := self._next(inbox, deadline)).kind != DONE:
                if frame.kind == TAKEN:
                    feed.add_credit(int.from_bytes(frame.payload, "big"))
                    self.send(feed.frames())
                elif frame.kind in (STDOUT, STDERR):
                    on_chunk(frame.kind, frame.payload)
                    self.send(inbox.acknowledge(channel, len(frame.payload)) + feed.frames())
            done = True
            return wire.parse_report(frame.payload)
        finally:
            del self._inboxes[channel]
            # After an error of `on_chunk` or Ctrl-C, the command must not run on unobserved.
            if not done and self._lost is None:
                with suppress(SandboxLost):
                    self.send(wire.encode(STOP, channel))

    def add_channel(self, channel: int, inbox: ReceiveQueue) -> None:
        """Put frames of a channel that the supervisor opened into this queue.

        Raises:
            SandboxLost: the stream ended, or the channel number is not free.
        """
        with self._lock:
            if self._lost is not None:
                raise SandboxLost(self._lost)
            if channel < FIRST_CONNECTION or channel in self._inboxes:
                raise SandboxLost(f"the supervisor gave channel {channel}, which is taken")
            self._inboxes[channel] = inbox

    def remove_channel(self, channel: int) -> None:
        """Remove a channel that `add_channel` added."""
        del self._inboxes[channel]

    def send(self, data: bytes) -> None:
        """Send whole frames, or nothing.

        Raises:
            SandboxLost: the stream ended.
        """
        if not data:
            return
        try:
            self._stream.send(data)
        except OSError as error:
            self._lose(f"the stream to the sandbox broke: {error}")
            raise SandboxLost(self._lost) from error
        except BaseException:  # Ctrl-C may leave half a frame, and nothing can follow that
            self._lose("a send was cut short")
            raise

    def close(self, reason: str = "the sandbox was torn down") -> None:
        """End the stream, and with it the container; calls raise `reason`. Twice is fine."""
        self._lose(reason)
        self._stream.close()
        self._reader.join(timeout=5)

    def _open(self) -> tuple[int, ReceiveQueue]:
        inbox = ReceiveQueue()
        with self._lock:
            if self._lost is not None:
                raise SandboxLost(self._lost)
            channel = next(self._channels)
            self._inboxes[channel] = inbox
        return channel, inbox

    def _next(self, inbox: ReceiveQueue, deadline: float | None) -> Frame:
        try:
            timeout = None if deadline is None else max(0.0, deadline - time.monotonic())
            frame = inbox.get(timeout)
        except Empty:
            raise SupervisorSilent("the sandbox's supervisor no longer answers") from None
        if frame is None:
            raise SandboxLost(self._lost)
        return frame

    def _read(self) -> None:
        docker, frames = DockerReader(), FrameReader()
        try:
            while data := self._stream.receive():
                for stream, piece in docker.feed(data):
                    if stream == wire.DOCKER_STDERR:
                        self._note(piece)
                    else:
                        self._dispatch(frames.feed(piece))
            frames.end()
            self._lose(self._why_it_ended())
        except OSError as error:
            self._lose(f"the stream to the sandbox broke: {error}")
        except SandboxLost as error:
            self._lose(str(error))
        except Exception as error:  # noqa: BLE001  the thread's last door: callers wait for a word
            self._lose(f"the stream to the sandbox cannot be read: {error!r}")

    def _why_it_ended(self) -> str:
        if time.monotonic() >= self._ends_at:  # the supervisor counts from the hello's arrival
            return f"the sandbox reached its time limit of {self._ttl_s:g} s ([sandbox] ttl_s)"
        return "the sandbox ended: its container or its supervisor is gone"

    def _dispatch(self, frames: Iterator[Frame]) -> None:
        for frame in frames:
            inbox = self._inboxes.get(frame.channel)
            if inbox is not None:  # frames of an abandoned call may still arrive
                inbox.put(frame)

    def _note(self, piece: memoryview) -> None:
        self._notes += piece
        del self._notes[: max(0, len(self._notes) - _NOTES_LIMIT)]

    def _lose(self, reason: str) -> None:
        """Keep the first reason, and wake all waiting callers."""
        with self._lock:
            if self._lost is not None:
                return
            notes = self._notes.decode("utf-8", "replace").strip()
            self._lost = f"{reason}; it said: {notes}" if notes else reason
            inboxes = tuple(self._inboxes.values())
        for inbox in inboxes:
            inbox.end()
