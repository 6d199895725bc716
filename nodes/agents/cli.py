"""Agents that are command-line programs, run in the sandbox with a token of the gateway."""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from threading import Timer
from types import MappingProxyType
from typing import Protocol

from contracts.errors import SandboxLost
from contracts.gate import OpenGate, Spent
from contracts.run import Decisions
from contracts.sandbox import Command, ExecResult, Sandbox, Stream
from nodes.agents.allowed import check_allowed
from nodes.agents.events import Event, JsonLines
from nodes.agents.host_tools import Desk, open_desk
from nodes.agents.lines import one_line
from nodes.agents.story import Story
from nodes.agents.types import Agent, AgentResult, AgentTask, OnLine, spent_line, terms
from nodes.node_sandbox import quiet

FIRST_BYTE_S = 60.0
"""An agent that has said nothing at all after this long hangs: both say who they are at once."""

GATEWAY_PORT = 4180
"""The port inside a sandbox that leads to the gateway."""

_HOME = "/tmp/harness-agent"  # noqa: S108 - in the sandbox, where /tmp is its own
_LAUNCH = 'echo $$ > "$1" && shift && exec "$@"'
_END = 'kill -TERM "$(cat "$1")"; sleep 3; kill -KILL "$(cat "$1")"'


@dataclass(frozen=True, kw_only=True)
class Launch:
    """How to start an agent. What it is asked comes by `stdin` and `files`, never by `argv`."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    stdin: str
    files: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, kw_only=True)
class Call:
    """What a launch is made for: `home` is a folder of the agent's own, outside the workspace."""

    task: AgentTask
    token: str
    url: str
    home: str
    desk: Desk | None = None

    @property
    def system(self) -> str:
        """What is added to the agent's own system prompt."""
        return "\n".join(part for part in (self.task.system, self.desk and self.desk.says) if part)


class Reading(Protocol):
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


@dataclass(frozen=True, kw_only=True)
class Cli:
    """One command-line agent."""

    name: str
    launch: Callable[[Call], Launch]
    reading: Callable[[Story], Reading]


def cli_agent(
    cli: Cli,
    open_gate: OpenGate,
    *,
    port: int = GATEWAY_PORT,
    on_line: OnLine = lambda _: None,
    first_byte_s: float = FIRST_BYTE_S,
) -> Agent:
    """The agent that `cli` describes; `port` leads from inside the sandbox to the gateway.

    Turns, usage, calls and decisions are the gateway's count: they are right also for an
    agent that was killed, that lies or that says nothing.
    """

    def work(task: AgentTask, sandbox: Sandbox) -> AgentResult:
        check_allowed(cli.name, task.allowed_tools)
        began = time.monotonic()
        with open_gate(terms(cli.name, task)) as gate:
            home = f"{_HOME}/{sha256(gate.token.encode()).hexdigest()[:12]}"
            url = f"http://127.0.0.1:{port}"
            desk = open_desk(task, sandbox)
            launch = cli.launch(Call(task=task, token=gate.token, url=url, home=home, desk=desk))
            story = Story(on_line)
            session = _Session(sandbox, home, cli.reading(story), first_byte_s)
            ended = session.run(launch, task.limits.time_s)
            spent = gate.spent()
        error = session.why(ended, spent)
        return AgentResult(
            status="success" if error is None else "failure",
            output=story.output,
            error=error if error is None else _full(error, story.under_way, spent),
            turns=spent.turns,
            usage=spent.usage,
            duration_ms=round((time.monotonic() - began) * 1000),
            tool_calls=spent.tool_calls,
            decisions=spent.decisions + Decisions(denied=session.reading.denied),
        )

    return work


class _Session:
    """One start of an agent, watched until it has ended."""

    def __init__(self, sandbox: Sandbox, home: str, reading: Reading, first_byte_s: float) -> None:
        self._sandbox = sandbox
        self._home = home
        self._first_byte_s = first_byte_s
        self._hung = False
        self._limit_s: float | None = None
        self.reading = reading
        self.lines = JsonLines(reading.take)

    def run(self, launch: Launch, limit_s: float | None) -> ExecResult:
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
                ),
                heard,
            )
        finally:
            watchdog.cancel()
        self.lines.close()
        self._sandbox.exec(Command(argv=("rm", "-rf", self._home)), quiet)
        return ended

    def why(self, ended: ExecResult, spent: Spent) -> str | None:
        """Why the agent failed, the surest reason first; None when it did not."""
        if self._hung:
            return f"it said nothing for {self._first_byte_s:g} s and was killed"
        if ended.timed_out:
            return f"time limit of {self._limit_s or 0:g} s reached: it was killed"
        failure = self.reading.failure()
        if failure is None:
            return None
        if ended.out_of_memory:
            return "it ran out of memory"
        if ended.out_of_disk:
            return "it ran out of disk"
        return spent.stopped or self._outage(spent) or f"{failure} ({self._last_words(ended)})"

    def _outage(self, spent: Spent) -> str | None:
        return spent.outage and f"the model did not answer: {spent.outage}"

    def _last_words(self, ended: ExecResult) -> str:
        parts = [f"exit {ended.exit_code}"]
        if self.lines.garbage:
            shown = one_line(self.lines.last_garbage[-1], 100)
            parts.append(f"{self.lines.garbage} lines were no JSON, at last {shown!r}")
        said = one_line(self.lines.stderr.decode("utf-8", "replace"), 200)
        return ", ".join([*parts, said] if said else parts)

    def _kill(self, pid_file: str) -> None:
        self._hung = True
        with suppress(SandboxLost):  # it is gone, and with it the agent; `exec` tells
            self._sandbox.exec(Command(argv=("sh", "-c", _END, "sh", pid_file)), quiet)


def _full(error: str, under_way: str, spent: Spent) -> str:
    """The reason, what was under way and what was spent, in one line."""
    doing = f"; under way: {under_way}" if under_way else ""
    return f"{error}{doing}; {spent_line(spent.turns, spent.usage)}"
