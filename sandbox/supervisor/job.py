"""One job: its pipes, what is on its way through them, and what became of it."""

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
from functools import partial
from typing import Any

from sandbox.supervisor.frames import CHUNK, INPUT, STDERR, STDOUT, TAKEN, WINDOW
from sandbox.supervisor.process_tree import ProcessTree

KILLED = 128 + signal.SIGKILL
READABLE, WRITABLE, PRIVATE = 0o640, 0o620, 0o600
"""Of pipes, which are root's and the job's: it may open `/dev/stdin` and `/dev/stdout` anew."""


class KernelCounts:
    """What the kernel has counted in this container: kills for memory, and forks that failed
    because as many processes as the limit allows were there."""

    def __init__(self, oom_kills: int, failed_forks: int) -> None:
        self.oom_kills, self.failed_forks = oom_kills, failed_forks


class Job:
    """One job and the stream between it and the harness."""

    def __init__(
        self, pump: Any, channel: int, tree: ProcessTree, *, has_input: bool, private: bool
    ) -> None:
        self.pump, self.channel, self.tree = pump, channel, tree
        self.pid, self.stdin, self.status = 0, -1, 0
        self.ending = self.ended = self.timed_out = self.out_of_disk = self.input_ended = False
        self.pending = bytearray()
        self.credit = WINDOW
        self.left = {STDOUT: CHUNK, STDERR: CHUNK}
        if has_input:
            take, self.stdin = os.pipe()
            self.give(take, PRIVATE if private else READABLE)
            os.set_blocking(self.stdin, False)
        else:
            take = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
        stdout, out = os.pipe()
        stderr, err = os.pipe()
        for end in (out, err):
            self.give(end, PRIVATE if private else WRITABLE)
        self.outputs = {STDOUT: stdout, STDERR: stderr}
        self.theirs = (take, out, err)

    def give(self, end: int, mode: int) -> None:
        """Let the job's processes, and no others, open this end of a pipe as `mode` has it."""
        os.setgroups([self.tree.mark])  # a group that is ours we may give without a capability
        os.fchown(end, -1, self.tree.mark)
        os.fchmod(end, mode)

    def begin(self, timeout_s: float | None, counted: KernelCounts, beside: Iterable[Job]) -> None:
        self.began_at = self.ended_at = time.monotonic()
        self.deadline = math.inf if timeout_s is None else self.began_at + timeout_s
        self.counted, self.alone = counted, True
        for other in beside:
            self.alone = other.alone = False

    def facts(self, counted: KernelCounts) -> dict[str, object]:
        """How it went; every one of its processes is gone.

        The kernel counts its kills for memory, and does not say whom it killed: a job that
        ran beside others was the victim when its own exit tells of a kill. Nor does it say
        whose fork failed: any job that ran meanwhile and failed may have failed for that.
        """
        code = KILLED if self.timed_out else os.waitstatus_to_exitcode(self.status)
        code = code if code >= 0 else 128 - code
        suspect = code == KILLED or (code != 0 and self.alone)
        return {
            "exit_code": code,
            "timed_out": self.timed_out,
            "duration_ms": round((self.ended_at - self.began_at) * 1000),
            "killed_children": len(self.tree.seen - {self.pid}),
            "out_of_disk": self.out_of_disk,
            "out_of_memory": suspect
            and not self.timed_out
            and counted.oom_kills > self.counted.oom_kills,
            "out_of_processes": code != 0 and counted.failed_forks > self.counted.failed_forks,
        }

    def release(self) -> None:
        """Let go of the ends that the process has taken."""
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
        """Write what the job takes now; come back when it takes more."""
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
            self.pump.send(TAKEN, self.channel, taken.to_bytes(4, "big"))
        if self.stdin < 0:
            return
        if self.pending:
            self.pump.watch(self.stdin, self.offer_input, event=selectors.EVENT_WRITE)
        elif self.input_ended:
            self.close_input()
        else:
            self.pump.unwatch(self.stdin)

    def listen(self) -> None:
        """Watch the output while the harness has room for it."""
        for kind, fd in self.outputs.items():
            if self.credit > 0:
                self.pump.watch(fd, partial(self.forward, kind))
            else:
                self.pump.unwatch(fd)

    def forward(self, kind: int) -> None:
        data = os.read(self.outputs[kind], min(CHUNK, self.credit, self.left[kind]))
        if data:
            self.pump.send(kind, self.channel, data)
            self.credit -= len(data)
            if self.credit <= 0:
                self.listen()
        if self.ended:
            self.left[kind] -= len(data)
        if not data or not self.left[kind]:
            self.close_output(kind)

    def end(self) -> None:
        """Read what the pipes hold now and no more: others may hold their far ends."""
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
            self.pump.unwatch(self.stdin)
            os.close(self.stdin)
            self.stdin = -1

    def close_output(self, kind: int) -> None:
        fd = self.outputs.pop(kind)
        self.pump.unwatch(fd)
        os.close(fd)

    def close(self) -> None:
        """Close what is still open on our side."""
        self.close_input()
        for kind in tuple(self.outputs):
            self.close_output(kind)
