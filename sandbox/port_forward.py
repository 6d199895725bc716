"""Forwarding a port inside the sandbox to sockets on the host, over the supervisor's stream."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import partial
from queue import Empty, SimpleQueue

from contracts.errors import HarnessError, SandboxLost, Unavailable
from contracts.sandbox import Connect, OpenInput
from sandbox import wire
from sandbox.supervisor.frames import CHUNK, DONE, INPUT, STDOUT, STOP, TAKEN
from sandbox.supervisor.port_forward import CONNECTION_WINDOW, MAX_CONNECTIONS, NUMBER
from sandbox.supervisor_client import START_TIMEOUT_S, SupervisorClient
from sandbox.wire import Frame, ReceiveQueue, SendCredit

_PLACES = 2 * MAX_CONNECTIONS
"""Twice as many, as the supervisor may open a connection before we have closed an ended one."""


def check_port(port: int) -> None:
    """Raise ValueError for a port that needs privileges."""
    if port and not 1024 <= port <= 65535:
        raise ValueError(f"a port is forwarded from 1024 to 65535, or 0 for any; got {port}")


class PortForward:
    """One port, served by a thread of its own; each connection takes two more."""

    def __init__(self, link: SupervisorClient, connect: Connect) -> None:
        self._link = link
        self._connect = connect
        self._places = threading.Semaphore(_PLACES)
        self._answers: SimpleQueue[int | HarnessError] = SimpleQueue()
        self._port: int | None = None

    def open_port(self, port: int) -> int:
        """Listen inside until the sandbox ends; return the port number (0 asks for any).

        Raises:
            Unavailable: something inside has that port.
            SandboxLost: the sandbox is gone.
        """
        _start(partial(self._serve, port))
        try:
            answer = self._answers.get(timeout=START_TIMEOUT_S)
        except Empty:
            raise SandboxLost("the sandbox's supervisor no longer answers") from None
        if isinstance(answer, HarnessError):
            raise answer
        return answer

    def _serve(self, port: int) -> None:
        request = {"task": "listen", "port": port}
        try:
            report = self._link.call(request, OpenInput.whole(b""), self._take, None)
        except SandboxLost as error:
            self._answers.put(error)
        else:
            reason = f"wanted port {port} inside the sandbox: {report.error}"
            self._answers.put(Unavailable(reason))

    def _take(self, _: int, number: bytes) -> None:
        """Take a number: the first is the port, each further one the channel of a connection."""
        if len(number) != NUMBER.size:
            raise SandboxLost(f"the supervisor gave {number[:20]!r} for a port or a channel")
        (value,) = NUMBER.unpack(number)
        if self._port is None:
            self._port = value
            self._answers.put(value)
        elif self._places.acquire(blocking=False):
            _start(partial(self._serve_connection, _Connection(self._link, value)))
        else:
            raise SandboxLost(f"the supervisor opened more than {_PLACES} connections")

    def _serve_connection(self, connection: "_Connection") -> None:
        with suppress(SandboxLost):
            connection.serve(self._connect)
        self._places.release()


class _Connection:
    """One connection from inside; no bytes move until we send the room we have."""

    def __init__(self, link: SupervisorClient, channel: int) -> None:
        self._link = link
        self._channel = channel
        self._credit = SendCredit(CONNECTION_WINDOW)
        self._inbox = _ConnectionInbox(self._credit)
        link.add_channel(channel, self._inbox)

    def serve(self, connect: Connect) -> None:
        """Serve the connection to its end; reset it inside if `connect` fails."""
        try:
            with closing(connect()) as outside:
                self._send(TAKEN, NUMBER.pack(CONNECTION_WINDOW))
                self._carry(outside)
        except OSError:
            self._send(STOP)
            for _ in self._frames():
                pass
        finally:
            self._link.remove_channel(self._channel)

    def _carry(self, outside: socket.socket) -> None:
        inward = _start(partial(self._carry_in, outside))
        try:
            self._carry_out(outside)
        finally:
            self._credit.close()
            # `join` alone would wait for ever: the thread is blocked in `recv`.
            with suppress(OSError):
                outside.shutdown(socket.SHUT_RDWR)
            inward.join()

    def _carry_out(self, outside: socket.socket) -> None:
        for frame in self._frames():
            if frame.kind == STDOUT and frame.payload:
                outside.sendall(frame.payload)
                self._link.send(self._inbox.acknowledge(self._channel, len(frame.payload)))
            elif frame.kind == STDOUT:
                with suppress(OSError):  # the far end may have hung up first
                    outside.shutdown(socket.SHUT_WR)

    def _carry_in(self, outside: socket.socket) -> None:
        with suppress(SandboxLost):
            try:
                while room := self._credit.wait():
                    data = outside.recv(min(CHUNK, room))
                    self._credit.spend(len(data))
                    self._send(INPUT, data)
                    if not data:
                        return
                outside.shutdown(socket.SHUT_RDWR)
            except OSError:
                self._send(STOP)

    def _frames(self) -> Iterator[Frame]:
        """Yield frames until DONE or the end of the sandbox."""
        while (frame := self._inbox.get()) is not None and frame.kind != DONE:
            yield frame

    def _send(self, kind: int, payload: bytes = b"") -> None:
        self._link.send(wire.encode(kind, self._channel, payload))


class _ConnectionInbox(ReceiveQueue):
    """Credit does not queue up behind data: each direction would wait for the other."""

    def __init__(self, credit: SendCredit) -> None:
        super().__init__(CONNECTION_WINDOW)
        self._credit = credit

    def put(self, frame: Frame) -> None:
        """Add a frame; called by the reader only."""
        if frame.kind == TAKEN:
            self._credit.add(int.from_bytes(frame.payload, "big"))
            return
        super().put(frame)
        if frame.kind == DONE:
            self._credit.close()

    def end(self) -> None:
        """Say that nothing comes any more."""
        super().end()
        self._credit.close()


def _start(work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work, name="sandbox-forward", daemon=True)
    thread.start()
    return thread
