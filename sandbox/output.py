"""Bounded memory for an output that may never end."""


class HeadAndTail:
    """Keeps the first quarter of `limit` and the last three quarters, in that much memory.

    >>> kept = HeadAndTail(8)
    >>> kept.add(b"0123456789")
    >>> kept.value, kept.size, kept.truncated
    (b'01456789', 10, True)
    """

    def __init__(self, limit: int) -> None:
        self._head_limit = limit // 4
        self._tail_limit = limit - self._head_limit
        self._head = bytearray()
        self._tail = bytearray()
        self.size = 0

    def append(self, data: bytes) -> None:
        """Add the next bytes of the output."""
        self.size += len(data)
        room = self._head_limit - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        if len(self._tail) > 2 * self._tail_limit + 65536:
            self._trim()

    @property
    def value(self) -> bytes:
        """Head and tail as one."""
        self._trim()
        return bytes(self._head + self._tail)

    @property
    def truncated(self) -> bool:
        """Whether bytes in the middle were dropped."""
        return self.size > self._head_limit + self._tail_limit

    def _trim(self) -> None:
        del self._tail[: max(0, len(self._tail) - self._tail_limit)]
