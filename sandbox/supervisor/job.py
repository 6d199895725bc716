"""One job: its pipes, the bytes in transit, and how it ended."""

from __future__ import annotations

import fcntl
import math
import os
import selectors
import signal
import sys
import termios
import time
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import Any

from sandbox.supervisor.frames import CHUNK, INPUT, STDERR, STDOUT, TAKEN, WINDOW
from sandbox.supervisor.process_tree import ProcessTree
from sandbox.supervisor.stuck import StuckWatch

KILLED = 128 + signal.SIGKILL
SENT = frozenset(
    128 + number
    for number in (
        *(signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGKILL, signal.SIGTERM),
        *(signal.SIGUSR1, signal.SIGUSR2),
    )
)
"""Exit codes of programs that ended by a signal which processes send to others."""
READABLE, WRITABLE, PRIVATE = 0o640, 0o620, 0o600
"""Modes of pipes, owned by root and the job's group: a job may reopen `/dev/stdin`."""


class KernelCounts:
    """The kernel's counts for this container: kills for memory, and forks over the pids limit."""

    def __init__(self, oom_kills: int, failed_forks: int) -> None:
        self.oom_kills, self.failed_forks = oom_kills, failed_forks


class Job:
    """One job and the stream between it and the harness."""

    def __init__(
        self, loop: Any, channel: int, tree: ProcessTree, *, has_input: bool, private: bool
    ) -> None:
        self.loop, self.channel, self.tree = loop, channel, tree
        self.pid, self.stdin, self.status = 0, -1, 0
        self.ending = self.ended = self.timed_out = self.out_of_disk = self.input_ended = False
        self.stuck, self.stacks = False, False
        self.next_round = 0.0
        self.watch: StuckWatch | None = None
        self.pending = bytearray()
        self.credit = WINDOW
        self.left = {STDOUT: CHUNK, STDERR: CHUNK}
        if has_input:
            take, self.stdin = os.pipe()
            self.share(take, PRIVATE if private else READABLE)
            os.set_blocking(self.stdin, False)
        else:
            take = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
        stdout, out = os.pipe()
        stderr, err = os.pipe()
        for end in (out, err):
            self.share(end, PRIVATE if private else WRITABLE)
        self.outputs = {STDOUT: stdout, STDERR: stderr}
        self.theirs = (take, out, err)

    def share(self, end: int, mode: int) -> None:
        """Let the job's processes, and no others, open this end of a pipe."""
        os.setgroups([self.tree.mark])  # chown to one of our groups needs no capability
        with suppress(PermissionError):  # gVisor's pipes have no owner: nothing can reopen them
            os.fchown(end, -1, self.tree.mark)
            os.fchmod(end, mode)

    def begin(self, request: dict[str, Any], counted: KernelCounts, beside: Iterable[Job]) -> None:
        self.began_at = self.ended_at = time.monotonic()
        timeout_s, stuck_after_s = request["timeout_s"], request.get("stuck_after_s")
        self.deadline = math.inf if timeout_s is None else self.began_at + timeout_s
        self.stacks = request.get("stacks", False)
        if stuck_after_s is not None:
            self.watch = StuckWatch(stuck_after_s, self.began_at)
        self.counted, self.alone = counted, True
        for other in beside:
            self.alone = other.alone = False

    def facts(self, counted: KernelCounts) -> dict[str, object]:
        """Return the report of the job, whose processes have all ended.

        The kernel counts kills for memory without saying of which process: a job that ran beside
        others counts as killed only if its exit code says so. It also does not say whose fork
        failed: any job that ran meanwhile and failed may have failed because of it. Nor does it say
        who sent a signal: a job that ran beside others may have had it from one of them.
        """
        code = KILLED if self.timed_out else os.waitstatus_to_exitcode(self.status)
        code = code if code >= 0 else 128 - code
        suspect = code == KILLED or (code != 0 and self.alone)
        return {
            "exit_code": code,
            "timed_out": self.timed_out,
            "stuck": self.stuck,
            "duration_ms": round((self.ended_at - self.began_at) * 1000),
            "killed_children": len(self.tree.seen - {self.pid}),
            "out_of_disk": self.out_of_disk,
            "out_of_memory": suspect
            and not self.timed_out
            and counted.oom_kills > self.counted.oom_kills,
            "disturbed": code in SENT and not self.alone and not self.timed_out,
            "out_of_processes": code != 0 and counted.failed_forks > self.counted.failed_forks,
        }

    def release(self) -> None:
        """Close the ends of pipes that the process has inherited."""
        for fd in self.theirs:
            os.close(fd)
        self.listen()

    def handle(self, kind: int, payload: bytes) -> None:
        if kind == INPUT:
            self.input_ended = not payload
            self.pending += payload
            self.offer_input()
        elif kind == TAKEN:
            self.credit += int.from_bytes(payload, "big")
            self.listen()

    def offer_input(self) -> None:
        """Write as much input as the job reads now, and watch for more room."""
        taken = len(self.pending)
        try:
            if taken and self.stdin >= 0:
                taken = os.write(self.stdin, self.pending[:CHUNK])
        except BlockingIOError:
            taken = 0
        except BrokenPipeError:
            self.close_input()
        if taken:
            del self.pending[:taken]
            self.loop.send(TAKEN, self.channel, taken.to_bytes(4, "big"))
        if self.stdin < 0:
            return
        if self.pending:
            self.loop.watch(self.stdin, self.offer_input, event=selectors.EVENT_WRITE)
        elif self.input_ended:
            self.close_input()
        else:
            self.loop.unwatch(self.stdin)

    def listen(self) -> None:
        """Watch the outputs while the harness has room for their bytes."""
        for kind, fd in self.outputs.items():
            if self.credit > 0:
                self.loop.watch(fd, partial(self.forward, kind))
            else:
                self.loop.unwatch(fd)

    def forward(self, kind: int) -> None:
        data = os.read(self.outputs[kind], min(CHUNK, self.credit, self.left[kind]))
        if data:
            if self.watch is not None:
                self.watch.written(time.monotonic())
            self.loop.send(kind, self.channel, data)
            self.credit -= len(data)
            if self.credit <= 0:
                self.listen()
        if self.ended:
            self.left[kind] -= len(data)
        if not data or not self.left[kind]:
            self.close_output(kind)

    def end(self) -> None:
        """Read only what the pipes hold now: other processes may have inherited their far ends."""
        self.ended = True
        self.close_input()
        for kind, fd in tuple(self.outputs.items()):
            waiting = fcntl.ioctl(fd, termios.FIONREAD, b"\0" * 4)
            self.left[kind] = int.from_bytes(waiting, sys.byteorder)
            if not self.left[kind]:
                self.close_output(kind)
            elif self.credit > 0:
                self.forward(kind)

    def close_input(self) -> None:
        if self.stdin >= 0:
            self.loop.unwatch(self.stdin)
            os.close(self.stdin)
            self.stdin = -1

    def close_output(self, kind: int) -> None:
        fd = self.outputs.pop(kind)
        self.loop.unwatch(fd)
        os.close(fd)

    def close(self) -> None:
        """Close the pipes that are still open on our side."""
        self.close_input()
        for kind in tuple(self.outputs):
            self.close_output(kind)
