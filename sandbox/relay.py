"""Copying bytes between two sockets, both ways."""

import math
import select
import socket

CHUNK = 1 << 16


def relay(left: socket.socket, right: socket.socket, *, idle_s: float = math.inf) -> None:
    """Copy bytes until both ends have shut down sending, or no byte moved for `idle_s`.

    At most CHUNK bytes are buffered each way.

    Raises:
        OSError: one of the connections broke.
    """
    left.setblocking(False)
    right.setblocking(False)
    ways = (_Way(left, right), _Way(right, left))
    while not all(way.ended for way in ways):
        poll = select.poll()
        for end in (left, right):
            if events := ways[0].events(end) | ways[1].events(end):
                poll.register(end, events)
        if not poll.poll(None if idle_s == math.inf else idle_s * 1000):
            return
        for way in ways:
            way.move()


class _Way:
    """One direction; it reads on only when all bytes are written."""

    def __init__(self, source: socket.socket, sink: socket.socket) -> None:
        self._source, self._sink = source, sink
        self._buffer = b""
        self.ended = False

    def events(self, end: socket.socket) -> int:
        """Return the poll events to wait for at this end."""
        if self.ended:
            return 0
        if self._buffer:
            return select.POLLOUT if end is self._sink else 0
        return select.POLLIN if end is self._source else 0

    def move(self) -> None:
        """Copy bytes without blocking."""
        try:
            if not self._buffer and not self.ended:
                self._buffer = self._source.recv(CHUNK)
                if not self._buffer:
                    self.ended = True
                    self._sink.shutdown(socket.SHUT_WR)
            if self._buffer:
                self._buffer = self._buffer[self._sink.send(self._buffer) :]
        except BlockingIOError:
            return
