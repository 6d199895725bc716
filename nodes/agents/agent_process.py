"""One start of a command-line agent in the sandbox, watched until it has ended."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Timer
from types import MappingProxyType
from typing import Protocol

from contracts.errors import SandboxLost
from contracts.model_access import AgentUsage
from contracts.sandbox import Command, ExecResult, Sandbox, Stream
from nodes.agents.events import Event, JsonLines
from nodes.agents.lines import one_line
from nodes.node_sandbox import discard_output

FIRST_OUTPUT_TIMEOUT_S = 600.0
"""An agent that has said nothing at all after this long hangs: both say who they are at once."""

_WRITTEN = 'for i in $(seq 40); do grep -rqsF -e "$1" "$2" && exit; sleep 0.05; done; exit 1'
_LAUNCH = 'echo $$ > "$1" && shift && exec "$@"'
_END = 'kill -TERM "$(cat "$1")"; sleep 3; kill -KILL "$(cat "$1")"'


@dataclass(frozen=True, kw_only=True)
class LaunchCommand:
    """How to start an agent. What it is asked comes by `stdin` and `files`, never by `argv`."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    stdin: str
    files: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


class EventParser(Protocol):
    """Understands the events of one agent."""

    def take(self, event: Event) -> None:
        """One event, as it arrives."""
        ...

    def failure(self) -> str | None:
        """Why the agent failed by its own account, or None; asked when it has ended."""
        ...

    @property
    def denied(self) -> int:
        """Calls that the agent refused itself."""
        ...

    @property
    def rests(self) -> str | None:
        """What its session says of the last call when that has just ended and none is at work."""
        ...


class AgentProcess:
    """One start of an agent, watched until it has ended."""

    def __init__(
        self,
        sandbox: Sandbox,
        home: str,
        reading: EventParser,
        first_byte_s: float,
        keep: Callable[[], None],
    ) -> None:
        self._keep = keep
        self._sandbox = sandbox
        self._home = home
        self._first_byte_s = first_byte_s
        self._hung = False
        self._limit_s: float | None = None
        self.reading = reading
        self.lines = JsonLines(self._take)

    def run(self, launch: LaunchCommand, limit_s: float | None) -> ExecResult:
        """Start it and wait for it; it is killed when its first byte or its end is overdue."""
        self._limit_s = limit_s
        pid_file = f"{self._home}/pid"
        files = {pid_file: "", **launch.files}
        self._sandbox.upload_files({path: text.encode() for path, text in files.items()})
        watchdog = Timer(self._first_byte_s, self._kill, (pid_file,))
        watchdog.daemon = True
        watchdog.start()

        def heard(stream: Stream, data: bytes) -> None:
            watchdog.cancel()
            self.lines.feed(stream, data)

        try:
            ended = self._sandbox.exec(
                Command(
                    argv=("sh", "-c", _LAUNCH, "sh", pid_file, *launch.argv),
                    env=launch.env,
                    stdin=launch.stdin.encode(),
                    timeout_s=limit_s,
                    private=True,
                ),
                heard,
            )
        finally:
            watchdog.cancel()
        self.lines.close()
        return ended

    def clear(self) -> None:
        """Leave nothing of it behind: nobody goes on with this conversation."""
        self._sandbox.exec(Command(argv=("rm", "-rf", self._home)), discard_output)

    def _take(self, event: Event) -> None:
        self.reading.take(event)
        if self.reading.rests is not None and self._has_written(self.reading.rests):
            self._keep()

    def _has_written(self, words: str) -> bool:
        """Whether its session has these words; what is said reaches the disk a little later."""
        look = Command(argv=("sh", "-c", _WRITTEN, "sh", words, self._home), timeout_s=10.0)
        return self._sandbox.exec(look, discard_output).ok

    def why(self, ended: ExecResult, spent: AgentUsage) -> str | None:
        """Why the agent failed, the surest reason first; None when it did not."""
        failure = self.reading.failure()
        if failure is None and not (self._hung or ended.timed_out):
            return None
        if spent.stopped or spent.outage:
            return spent.stopped or spent.outage
        if self._hung:
            return f"it said nothing for {self._first_byte_s:g} s and was killed"
        if ended.timed_out:
            return f"time limit of {self._limit_s or 0:g} s reached: it was killed"
        return _ran_out(ended) or f"{failure} ({self._last_words(ended)})"

    def _last_words(self, ended: ExecResult) -> str:
        parts = [f"exit {ended.exit_code}"]
        if self.lines.garbage:
            shown = one_line(self.lines.last_garbage[-1], 100)
            parts.append(f"{self.lines.garbage} lines were no JSON, at last {shown!r}")
        if ended.out_of_processes:
            parts.append("the sandbox's limit of processes was reached")
        said = one_line(self.lines.stderr.decode("utf-8", "replace"), 200)
        return ", ".join([*parts, said] if said else parts)

    def _kill(self, pid_file: str) -> None:
        self._hung = True
        with suppress(SandboxLost):  # it is gone, and with it the agent; `exec` tells
            self._sandbox.exec(Command(argv=("sh", "-c", _END, "sh", pid_file)), discard_output)


def _ran_out(ended: ExecResult) -> str | None:
    if ended.out_of_memory:
        return "it ran out of memory"
    return "it ran out of disk" if ended.out_of_disk else None
