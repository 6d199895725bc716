"""The sandbox as one node sees it: with the run's env, a deadline and live output."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from time import monotonic

from contracts.sandbox import Command, ExecResult, OnOutput, Sandbox, Stream
from nodes.text import strip_control_characters

LineSink = Callable[[str], None]

MAX_LIVE_LINES = 2_000
"""Lines that one node may send to the live log."""

MAX_LINE = 2_000
"""Characters of one live line."""


def discard_output(_: Stream, __: bytes) -> None:
    """An `on_output` that keeps a command's output out of the live log."""


class LiveLines:
    """Splits output that arrives in chunks into lines for `sink`, without control characters."""

    def __init__(self, sink: LineSink) -> None:
        self._sink = sink
        self._rest: dict[Stream, bytes] = {"stdout": b"", "stderr": b""}
        self._sent = 0

    def feed(self, stream: Stream, data: bytes) -> None:
        *lines, rest = (self._rest[stream] + data).split(b"\n")
        self._rest[stream] = rest[:MAX_LINE]
        for line in lines:
            self._send(line)

    def close(self) -> None:
        """Send the last line of each stream if it had no newline."""
        for stream, rest in self._rest.items():
            self._rest[stream] = b""
            if rest:
                self._send(rest)

    def _send(self, line: bytes) -> None:
        self._sent += 1
        if self._sent < MAX_LIVE_LINES:
            self._sink(strip_control_characters(line[:MAX_LINE].decode("utf-8", "replace")))
        elif self._sent == MAX_LIVE_LINES:
            self._sink(f"[more than {MAX_LIVE_LINES} lines: the rest is not shown live]")


class NodeSandbox:
    """A `Sandbox` that adds `env` to every command and ends commands at the node's deadline."""

    def __init__(
        self, inner: Sandbox, *, env: Mapping[str, str], timeout_s: float | None, sink: LineSink
    ) -> None:
        self._inner = inner
        self._env = env
        self._deadline = None if timeout_s is None else monotonic() + timeout_s
        self._live = LiveLines(sink)
        self.executing = False
        """True while a command runs."""
        self.work_dir = inner.work_dir
        self.read_file = inner.read_file
        self.write_file = inner.write_file
        self.upload_files = inner.upload_files
        self.forward = inner.forward
        self.snapshot = inner.snapshot
        self.restore = inner.restore
        self.teardown = inner.teardown

    @property
    def out_of_time(self) -> bool:
        """True after the node's deadline."""
        return self._deadline is not None and monotonic() >= self._deadline

    @property
    def left_s(self) -> float | None:
        """Seconds until the node's deadline; None without one."""
        return None if self._deadline is None else max(self._deadline - monotonic(), 0.001)

    def exec(self, command: Command, on_output: OnOutput | None = None) -> ExecResult:
        if self.out_of_time:
            return ExecResult(exit_code=124, timed_out=True)
        bounded = replace(
            command, env={**self._env, **command.env}, timeout_s=self._time_for(command)
        )
        self.executing = True
        try:
            result = self._inner.exec(bounded, on_output or self._live.feed)
        finally:
            self.executing = False
        self._live.close()
        return result

    def _time_for(self, command: Command) -> float | None:
        limits = [limit for limit in (self.left_s, command.timeout_s) if limit is not None]
        return min(limits, default=None)
