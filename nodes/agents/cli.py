"""Agents that are command-line programs, run in the sandbox with a token of the gateway."""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from threading import Timer
from types import MappingProxyType
from typing import Protocol
from uuid import uuid4

from contracts.errors import ModelUnavailable, SandboxLost
from contracts.gate import OpenGate, Spent
from contracts.run import Decisions
from contracts.sandbox import Command, ExecResult, Sandbox, Stream
from nodes.agents.allowed import check_allowed
from nodes.agents.events import Event, JsonLines
from nodes.agents.host_tools import Desk, open_desk
from nodes.agents.lines import one_line
from nodes.agents.story import Story
from nodes.agents.talk import Talk
from nodes.agents.types import Agent, AgentResult, AgentTask, OnLine, spent_line, terms
from nodes.node_sandbox import quiet

FIRST_BYTE_S = 60.0
"""An agent that has said nothing at all after this long hangs: both say who they are at once."""

GATEWAY_PORT = 4180
"""The port inside a sandbox that leads to the gateway."""

_HOME = "/tmp/harness-agent"  # noqa: S108 - in the sandbox, where /tmp is its own
_GO_ON = (
    "You were interrupted. The files are as they were after your last tool call: go on from there."
)
_WRITTEN = 'for i in $(seq 40); do grep -rqsF -e "$1" "$2" && exit; sleep 0.05; done; exit 1'
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
    """What a launch is made for: `home` is a folder of the agent's own, outside the workspace.

    There it keeps its conversation as `session`, a UUID; `goes_on` when that is there already.
    """

    task: AgentTask
    token: str
    url: str
    home: str
    session: str
    desk: Desk | None = None

    @property
    def goes_on(self) -> bool:
        return self.task.so_far is not None

    @property
    def prompt(self) -> str:
        """What it is asked: its task, or to go on with it."""
        so_far = self.task.so_far
        return self.task.prompt if so_far is None else so_far.told or _GO_ON

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

    @property
    def rests(self) -> str | None:
        """What its session says of the last call when that has just ended and none is at work."""
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
    agent that lies or that says nothing, and for one that was killed, but for a last answer of
    which nothing came for seconds. So is the reason, when the gateway stopped it or its model did
    not answer at last.
    """

    def work(task: AgentTask, sandbox: Sandbox) -> AgentResult:
        check_allowed(cli.name, task.allowed_tools)
        began = time.monotonic()
        before = task.so_far or Talk(session=str(uuid4()), model=task.model)
        talk = replace(before, told="")
        with open_gate(terms(cli.name, task)) as gate:
            # Found again by whoever goes on with this node.
            home = f"{_HOME}/{sha256(task.node.encode()).hexdigest()[:12]}"
            call = Call(
                task=task,
                token=gate.token,
                url=f"http://127.0.0.1:{port}",
                home=home,
                session=before.session,
                desk=open_desk(task, sandbox),
            )
            story = Story(on_line)

            def keep() -> None:
                def still() -> bool:
                    """Whether the model has not asked for more; the gateway knows it first."""
                    return sum(gate.spent().tool_calls.values()) == story.done

                if still():
                    elapsed_s = before.elapsed_s + time.monotonic() - began
                    so_far = before.spent + gate.spent()
                    task.keep(replace(talk, spent=so_far, elapsed_s=elapsed_s), still)

            session = _Session(sandbox, home, cli.reading(story), first_byte_s, keep)
            limit_s = task.limits.time_s
            ended = session.run(
                cli.launch(call), None if limit_s is None else limit_s - before.elapsed_s
            )
            spent = before.spent + gate.settled()
        error = session.why(ended, spent)
        waits = error is None and spent.decisions.denied > 0
        if not waits:
            session.clear()
        if error is not None:
            error = _full(error, story.under_way, spent)
            _raise_outage(error, spent)
        return AgentResult(
            status="success" if error is None else "failure",
            output=story.output,
            error=error,
            turns=spent.turns,
            usage=spent.usage,
            duration_ms=round((before.elapsed_s + time.monotonic() - began) * 1000),
            tool_calls=spent.tool_calls,
            decisions=spent.decisions + Decisions(denied=session.reading.denied),
            talk=talk if waits else None,
        )

    return work


class _Session:
    """One start of an agent, watched until it has ended."""

    def __init__(
        self,
        sandbox: Sandbox,
        home: str,
        reading: Reading,
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
        self._sandbox.exec(Command(argv=("rm", "-rf", self._home)), quiet)

    def _take(self, event: Event) -> None:
        self.reading.take(event)
        if self.reading.rests is not None and self._has_written(self.reading.rests):
            self._keep()

    def _has_written(self, words: str) -> bool:
        """Whether its session has these words; what is said reaches the disk a little later."""
        look = Command(argv=("sh", "-c", _WRITTEN, "sh", words, self._home), timeout_s=10.0)
        return self._sandbox.exec(look, quiet).ok

    def why(self, ended: ExecResult, spent: Spent) -> str | None:
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
        said = one_line(self.lines.stderr.decode("utf-8", "replace"), 200)
        return ", ".join([*parts, said] if said else parts)

    def _kill(self, pid_file: str) -> None:
        self._hung = True
        with suppress(SandboxLost):  # it is gone, and with it the agent; `exec` tells
            self._sandbox.exec(Command(argv=("sh", "-c", _END, "sh", pid_file)), quiet)


def _ran_out(ended: ExecResult) -> str | None:
    if ended.out_of_memory:
        return "it ran out of memory"
    return "it ran out of disk" if ended.out_of_disk else None


def _raise_outage(error: str, spent: Spent) -> None:
    """An agent that failed because nobody answered did not fail: the run stops, as an outage."""
    if spent.outage and not spent.stopped:
        raise ModelUnavailable(error)


def _full(error: str, under_way: str, spent: Spent) -> str:
    """The reason, what was under way and what was spent, in one line."""
    doing = f"; under way: {under_way}" if under_way else ""
    return f"{error}{doing}; {spent_line(spent.turns, spent.usage)}"
