"""The sandbox as one node sees it: with the run's env, a deadline and live output."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from time import monotonic

from contracts.sandbox import (
    DEFAULT_FILE_LIMIT,
    Command,
    Connect,
    ExecResult,
    OnOutput,
    Sandbox,
    SnapshotId,
    Stream,
)
from nodes.text import strip_control_characters

LineSink = Callable[[str], None]

MAX_LIVE_LINES = 2_000
"""Lines that one node may send to the live log; its result still keeps head and tail."""

MAX_LINE = 2_000
"""Characters of one live line."""


def discard_output(_: Stream, __: bytes) -> None:
    """For `exec`: a look of our own, which nobody needs to watch."""


class LiveLines:
    """Turns bytes as they arrive into whole, inert lines for `sink`."""

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
        """Send what is left of a last line that had no newline."""
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
    """A `Sandbox` that adds `env` to every command and lets none outlive `timeout_s`."""

    def __init__(
        self, inner: Sandbox, *, env: Mapping[str, str], timeout_s: float | None, sink: LineSink
    ) -> None:
        self._inner = inner
        self._env = env
        self._deadline = None if timeout_s is None else monotonic() + timeout_s
        self._live = LiveLines(sink)

    @property
    def work_dir(self) -> str:
        return self._inner.work_dir

    @property
    def out_of_time(self) -> bool:
        """True once the node's deadline has passed."""
        return self._deadline is not None and monotonic() >= self._deadline

    def exec(self, command: Command, on_output: OnOutput | None = None) -> ExecResult:
        if self.out_of_time:
            return ExecResult(exit_code=124, timed_out=True)
        bounded = replace(
            command, env={**self._env, **command.env}, timeout_s=self._time_for(command)
        )
        result = self._inner.exec(bounded, on_output or self._live.feed)
        self._live.close()
        return result

    def _time_for(self, command: Command) -> float | None:
        if self._deadline is None:
            return command.timeout_s
        left = max(self._deadline - monotonic(), 0.001)
        return left if command.timeout_s is None else min(left, command.timeout_s)

    def read_file(self, path: str, limit: int = DEFAULT_FILE_LIMIT) -> bytes:
        return self._inner.read_file(path, limit)

    def write_file(self, path: str, data: bytes) -> None:
        self._inner.write_file(path, data)

    def upload_files(self, files: Mapping[str, bytes]) -> None:
        self._inner.upload_files(files)

    def forward(self, port: int, connect: Connect) -> int:
        return self._inner.forward(port, connect)

    def snapshot(self) -> SnapshotId:
        return self._inner.snapshot()

    def restore(self, snapshot: SnapshotId) -> None:
        self._inner.restore(snapshot)

    def teardown(self) -> None:
        self._inner.teardown()
