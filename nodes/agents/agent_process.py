"""The process of a command-line agent in the sandbox."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Timer
from types import MappingProxyType
from typing import Protocol

from contracts.errors import SandboxLost
from contracts.model_access import AgentUsage
from contracts.sandbox import Command, ExecResult, OpenInput, Sandbox, Stream
from nodes.agents.cli_output import Event, JsonLines
from nodes.node_sandbox import discard_output
from nodes.text import one_line

FIRST_OUTPUT_TIMEOUT_S = 600.0
"""An agent without any output for this long is killed. Both agents print an event at once."""

EXIT_TIMEOUT_S = 10.0
"""An agent that has not exited so long after the end of a dialogue is killed."""

_WAIT_FOR_TEXT = 'for i in $(seq 40); do grep -rqsF -e "$1" "$2" && exit; sleep 0.05; done; exit 1'
_LAUNCH = 'echo $$ > "$1" && shift && exec "$@"'
_KILL = (
    'until pid=$(cat "$1") && [ -n "$pid" ]; do sleep 0.1; done;'  # it may still be starting
    ' kill -TERM "$pid"; sleep 3; kill -KILL "$pid"'
)
_KILL_S = 60.0


@dataclass(frozen=True, kw_only=True)
class LaunchCommand:
    """How to start an agent. Prompts and tokens go into `stdin`, `env` or `files`, not `argv`."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    stdin: str | OpenInput
    files: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def hung_up(self) -> bool:
        """True if a dialogue with the agent was closed: the agent is to exit."""
        return isinstance(self.stdin, OpenInput) and self.stdin.closed


class EventParser(Protocol):
    """Reads the events of one agent program."""

    def take(self, event: Event) -> None:
        """Take one event."""
        ...

    def failure(self) -> str | None:
        """Return why the agent failed by its own account, or None. Called after its exit."""
        ...

    @property
    def denied(self) -> int:
        """Number of calls that the agent itself refused."""
        ...

    @property
    def last_result_marker(self) -> str | None:
        """Text of the last call's result in the session file, right after no call is running."""
        ...


class AgentProcess:
    """Starts an agent, reads its events, and calls `on_idle` when no tool call is running."""

    def __init__(
        self,
        sandbox: Sandbox,
        home: str,
        parser: EventParser,
        first_output_s: float,
        on_idle: Callable[[], None],
    ) -> None:
        self._sandbox = sandbox
        self._home = home
        self._first_output_s = first_output_s
        self._on_idle = on_idle
        self._hung = False
        self._limit_s: float | None = None
        self.parser = parser
        self.lines = JsonLines(self._take)

    def run(self, launch: LaunchCommand, limit_s: float | None) -> ExecResult:
        """Run the agent to its end. It is killed at the time limit, or without first output."""
        self._limit_s = limit_s
        pid_file = f"{self._home}/pid"
        files = {pid_file: "", **launch.files}
        self._sandbox.upload_files({path: text.encode() for path, text in files.items()})
        watchdog = _started_timer(self._first_output_s, lambda: self._kill_hung(pid_file))

        def on_output(stream: Stream, data: bytes) -> None:
            nonlocal watchdog
            hung_up = launch.hung_up
            watchdog.cancel()
            self.lines.feed(stream, data)
            if launch.hung_up and not hung_up:
                watchdog = _started_timer(EXIT_TIMEOUT_S, lambda: self._kill(pid_file))

        try:
            ended = self._sandbox.exec(
                Command(
                    argv=("sh", "-c", _LAUNCH, "sh", pid_file, *launch.argv),
                    env=launch.env,
                    stdin=launch.stdin,
                    timeout_s=limit_s,
                    private=True,
                ),
                on_output,
            )
        finally:
            watchdog.cancel()
            watchdog.join()  # a kill that has begun must not meet the next agent of this home
        self.lines.close()
        return ended

    def remove_files(self) -> None:
        """Remove the agent's home, including its session."""
        self._sandbox.exec(Command(argv=("rm", "-rf", self._home)), discard_output)

    def error(self, ended: ExecResult, spent: AgentUsage) -> str | None:
        """Return why the agent failed, the most certain reason first; None if it did not."""
        failure = self.parser.failure()
        if failure is None and not (self._hung or ended.timed_out):
            return spent.refused  # some agents end as usual then
        if reason := spent.stopped or spent.outage or spent.refused:
            return reason
        if self._hung:
            return f"it printed nothing for {self._first_output_s:g} s and was killed"
        if ended.timed_out:
            return f"time limit of {self._limit_s or 0:g} s reached: it was killed"
        if ended.out_of_memory or ended.out_of_disk:
            return f"it ran out of {'memory' if ended.out_of_memory else 'disk'}"
        return f"{failure} ({self._details(ended)})"

    def _details(self, ended: ExecResult) -> str:
        parts = [f"exit {ended.exit_code}"]
        if self.lines.garbage:
            shown = one_line(self.lines.last_garbage[-1], 100)
            parts.append(f"{self.lines.garbage} lines were not JSON, the last one {shown!r}")
        if ended.disturbed:
            parts.append("maybe ended by a command that ran at the same time")
        if ended.out_of_processes:
            parts.append("the sandbox's limit of processes was reached")
        stderr = one_line(self.lines.stderr.decode("utf-8", "replace"), 200)
        return ", ".join([*parts, stderr] if stderr else parts)

    def _take(self, event: Event) -> None:
        self.parser.take(event)
        marker = self.parser.last_result_marker
        if marker is not None and self._session_contains(marker):
            self._on_idle()

    def _session_contains(self, text: str) -> bool:
        """Wait up to 2 s for the text: agents print an event before they write their session."""
        look = Command(argv=("sh", "-c", _WAIT_FOR_TEXT, "sh", text, self._home), timeout_s=10.0)
        return self._sandbox.exec(look, discard_output).ok

    def _kill_hung(self, pid_file: str) -> None:
        self._hung = True
        self._kill(pid_file)

    def _kill(self, pid_file: str) -> None:
        with suppress(SandboxLost):  # the main thread's `exec` raises it, too
            kill = ("sh", "-c", _KILL, "sh", pid_file)
            self._sandbox.exec(Command(argv=kill, timeout_s=_KILL_S), discard_output)


def _started_timer(seconds: float, act: Callable[[], None]) -> Timer:
    timer = Timer(seconds, act)
    timer.daemon = True
    timer.start()
    return timer
