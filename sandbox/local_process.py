"""One command as a process of the host, for the scripted sandbox."""

import math
import os
import selectors
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from pwd import struct_passwd
from typing import IO, TypedDict

from contracts.sandbox import Command, ExecResult, OnOutput, OpenInput, Stream
from sandbox.output import CommandOutput
from sandbox.supervisor.frames import CHUNK
from sandbox.supervisor.stuck import LOOK_S, STACKS_S, StuckWatch, ask_for_stacks
from sandbox.supervisor.users import find_user


def start(command: Command, cwd: Path) -> "subprocess.Popen[bytes]":
    """Start the command in its own session.

    Raises:
        OSError: the program cannot be started.
        LookupError: the user is unknown, root, or not the user of this process.
    """
    user = None if command.user is None else find_user(command.user)
    home = str(cwd) if user is None else user.pw_dir
    env = {"PATH": os.environ.get("PATH", os.defpath), "HOME": home, "LANG": "C.UTF-8"}
    return subprocess.Popen(
        command.argv,
        cwd=cwd,
        env={**env, **command.env},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        **_as(user),
    )


class _AsUser(TypedDict, total=False):
    user: int
    group: int
    extra_groups: tuple[int, ...]


def _as(user: struct_passwd | None) -> _AsUser:
    if user is None or user.pw_uid == os.geteuid():
        return {}
    if os.geteuid() != 0:
        raise LookupError(
            f"user {user.pw_uid} is not you, and only root may run commands as another"
        )
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": ()}


class _Watch:
    """Serves the pipes of one process in the calling thread."""

    def __init__(
        self, process: "subprocess.Popen[bytes]", stdin: OpenInput, take: OnOutput
    ) -> None:
        self._process = process
        self._stdin = stdin
        self._offered = b""
        self._take = take
        self._selector = selectors.DefaultSelector()
        self._pidfd = os.pidfd_open(process.pid)
        self._selector.register(self._pidfd, selectors.EVENT_READ)
        for pipe, name in self._outputs():
            os.set_blocking(pipe.fileno(), False)
            self._selector.register(pipe, selectors.EVENT_READ, (pipe, name))
        assert process.stdin is not None  # noqa: S101  it was started with a pipe
        self._input = process.stdin
        os.set_blocking(self._input.fileno(), False)
        self._watch_input()

    def wait(self, deadline: float, stuck: StuckWatch | None = None) -> bool:
        """Serve until the process ends; return False if it is stuck or the deadline comes first."""
        while self._process.poll() is None:
            now = time.monotonic()
            if now >= deadline:
                return False
            if stuck and stuck.is_due(now) and stuck.look(now, _session(self._process.pid)):
                return False
            for key, _ in self._selector.select(min(deadline - now, LOOK_S if stuck else 60.0)):
                if key.fileobj is self._input:
                    self._offer_input()
                elif key.data is not None and not self._read(*key.data):
                    self._selector.unregister(key.fileobj)
                elif stuck and key.data is not None:
                    stuck.written(time.monotonic())
        return True

    def close(self) -> None:
        """Read the rest of the pipes and close them."""
        for pipe, name in self._outputs():
            while self._read(pipe, name):
                pass
        self._selector.close()
        os.close(self._pidfd)
        self._input.close()

    def _outputs(self) -> tuple[tuple[IO[bytes], Stream], ...]:
        process = self._process
        assert process.stdout is not None  # noqa: S101  it was started with pipes
        assert process.stderr is not None  # noqa: S101  and this too
        return ((process.stdout, "stdout"), (process.stderr, "stderr"))

    def _offer_input(self) -> None:
        self._offered = self._offered or self._stdin.take(CHUNK)
        try:
            self._offered = self._offered[os.write(self._input.fileno(), self._offered) :]
        except BrokenPipeError:
            self._stdin, self._offered = OpenInput.whole(b""), b""
        if not self._offered:
            self._watch_input()

    def _watch_input(self) -> None:
        """Watch the input only while there are bytes for it: an empty pipe is always writable."""
        if self._input.closed:
            return
        if self._input in self._selector.get_map():
            self._selector.unregister(self._input)
        if self._offered or self._stdin.waiting:
            self._selector.register(self._input, selectors.EVENT_WRITE)
        elif self._stdin.ended:
            self._input.close()

    def _read(self, pipe: IO[bytes], name: Stream) -> bool:
        try:
            data = os.read(pipe.fileno(), CHUNK)
        except BlockingIOError:
            return False
        if data:
            self._take(name, data)
            self._watch_input()
        return bool(data)


def follow(
    process: "subprocess.Popen[bytes]", command: Command, on_output: OnOutput | None
) -> ExecResult:
    """Serve the process to its end, then kill its session."""
    output = CommandOutput(command.output_limit, on_output)
    start = time.monotonic()
    watch = _Watch(process, command.input, output.append)
    deadline = start + (command.timeout_s or math.inf)
    after_s = command.stuck_after_s
    try:
        in_time = watch.wait(deadline, None if after_s is None else StuckWatch(after_s, start))
        duration = time.monotonic() - start
        if not in_time and command.stacks and ask_for_stacks(_session(process.pid)):
            watch.wait(time.monotonic() + STACKS_S)
    finally:
        killed = _kill_session(process.pid)
        code = process.wait()
        watch.close()
    code = code if in_time else -signal.SIGKILL
    ended = ExecResult(
        exit_code=code if code >= 0 else 128 - code,
        duration_ms=round(duration * 1000),
        timed_out=not in_time,
        stuck=not in_time and start + duration < deadline,
        killed_children=killed,
    )
    return output.add_to(ended)


def _kill_session(leader: int) -> int:
    """Kill the leader's session; return how many other processes were in it."""
    killed: set[int] = set()
    while members := _session(leader):
        for pid in members:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        killed |= members
        time.sleep(0.001)
    return len(killed - {leader})


def _session(leader: int) -> set[int]:
    """Return the living processes of a session; `getsid` is ten times faster than /proc."""
    members = set()
    for name in os.listdir("/proc"):  # noqa: PTH208 - of names only, hundreds of times a minute
        with suppress(OSError):
            if name.isdecimal() and os.getsid(int(name)) == leader:
                stat = Path("/proc", name, "stat").read_text()
                if stat.rpartition(")")[2].split()[0] not in "ZX":
                    members.add(int(name))
    return members
