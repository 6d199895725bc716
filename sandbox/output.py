"""The output of one command in bounded memory, however long it is."""

from dataclasses import replace

from contracts.sandbox import ExecResult, OnOutput, Stream


class CommandOutput:
    """Both streams of a command: passed on as they arrive, and kept up to `limit` bytes each."""

    def __init__(self, limit: int, on_output: OnOutput | None) -> None:
        self._streams: dict[Stream, HeadAndTail] = {
            "stdout": HeadAndTail(limit),
            "stderr": HeadAndTail(limit),
        }
        self._on_output = on_output

    def append(self, stream: Stream, data: bytes) -> None:
        """Add the next bytes of a stream."""
        self._streams[stream].append(data)
        if self._on_output is not None:
            self._on_output(stream, data)

    def add_to(self, result: ExecResult) -> ExecResult:
        """Return the result with this output."""
        stdout, stderr = self._streams["stdout"], self._streams["stderr"]
        return replace(
            result,
            stdout=stdout.value,
            stderr=stderr.value,
            truncated=stdout.truncated or stderr.truncated,
            stdout_size=stdout.size,
            stderr_size=stderr.size,
        )


class HeadAndTail:
    """Keeps the first quarter of `limit` and the last three quarters, in that much memory.

    >>> kept = HeadAndTail(8)
    >>> kept.append(b"0123456789")
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
