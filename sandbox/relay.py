"""Two sockets joined: what comes from one goes to the other, held back by nothing."""

import math
import select
import socket

CHUNK = 1 << 16


def relay(left: socket.socket, right: socket.socket, *, idle_s: float = math.inf) -> None:
    """Carry bytes both ways until both ends have said all, or nothing moved for `idle_s`.

    An end that has said all may still listen. At most CHUNK bytes are held each way.

    Raises:
        OSError: one of the two broke.
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
    """One direction: what is read is written before more is read."""

    def __init__(self, source: socket.socket, sink: socket.socket) -> None:
        self._source, self._sink = source, sink
        self._held = b""
        self.ended = False

    def events(self, end: socket.socket) -> int:
        """What to wait for at this end."""
        if self.ended:
            return 0
        if self._held:
            return select.POLLOUT if end is self._sink else 0
        return select.POLLIN if end is self._source else 0

    def move(self) -> None:
        """Move what can be moved without waiting."""
        try:
            if not self._held and not self.ended:
                self._held = self._source.recv(CHUNK)
                if not self._held:
                    self.ended = True
                    self._sink.shutdown(socket.SHUT_WR)
            if self._held:
                self._held = self._held[self._sink.send(self._held) :]
        except BlockingIOError:
            return
