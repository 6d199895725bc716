"""How much the sandbox user's files take, and who is ended when that is too much.

No quota is to be had in a container, so it is measured: seldom while the disk below us
stays as it is, at once when it has become noticeably fuller.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from typing import Any

from sandbox.supervisor.tree import AGENT

LOOK_S = 0.25
"""Between two looks at the free space, which cost next to nothing."""
MEASURE_S = 15.0
"""Between two measurements of a disk that gets no fuller."""
STEP = 16
"""A fall of the free space by a 16th of the limit is a reason to measure."""
KERNEL = ("/proc", "/sys", "/dev")


class Disk:
    """Measures while jobs run, in a fork of its own; `pump` has the jobs."""

    def __init__(self, pump: Any) -> None:
        self.pump = pump
        self.limit = 0
        self.most = 0
        self.free = free()
        self.next_look = self.next_measure = math.inf
        self.measuring = False

    def bound(self, limit: int) -> None:
        """Begin to watch."""
        self.limit = self.most = limit
        self.next_look = 0.0
        self.next_measure = time.monotonic() + MEASURE_S

    def tick(self, now: float) -> None:
        if now < self.next_look or self.measuring:
            return
        self.next_look = now + LOOK_S
        if now >= self.next_measure or self.free - free() > self.limit // STEP:
            self.measure(now)

    def measure(self, now: float) -> None:
        self.free, self.next_measure, self.measuring = free(), now + MEASURE_S, True
        told, tell = os.pipe()
        try:
            if os.fork() == 0:
                be_measure(tell)
        except OSError:
            os.write(tell, b"0")
        finally:
            os.close(tell)
        self.pump.watch(told, lambda: self.learn(told))

    def learn(self, told: int) -> None:
        """Take the number; too much ends who adds to it, and not who clears up."""
        used = int(os.read(told, 32) or b"0")
        self.pump.unwatch(told)
        os.close(told)
        self.measuring = False
        if used > self.most:
            self.most = used
            self.pump.jobs.kill_all(f"the files here take {used >> 20} of {self.limit >> 20} MB")
        elif used <= self.limit:
            self.most = self.limit


def free() -> int:
    found = os.statvfs("/")
    return found.f_bfree * found.f_frsize


def be_measure(tell: int) -> None:
    try:
        os.setgroups([])
        os.setresuid(AGENT, AGENT, AGENT)
        os.nice(10)
        os.write(tell, b"%d" % (sum(dict(written()).values()) + sum(dict(unlinked()).values())))
    finally:
        os._exit(0)


def written() -> Iterator[tuple[int, int]]:
    """Inode and bytes of each file of the user's, in each place where it can write."""
    todo = ["/"]
    while todo:
        place = todo.pop()
        try:
            entries = list(os.scandir(place))
        except OSError:
            continue
        todo += [
            e.path for e in entries if e.is_dir(follow_symlinks=False) and e.path not in KERNEL
        ]
        for entry in entries if os.access(place, os.W_OK) else ():
            try:
                found = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            if found.st_uid == AGENT:
                yield found.st_ino, found.st_blocks * 512


def unlinked() -> Iterator[tuple[int, int]]:
    """Inode and bytes of what is open and has no name any more."""
    for pid in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208
        try:
            for name in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208
                found = os.stat(f"/proc/{pid}/fd/{name}")  # noqa: PTH116
                if found.st_nlink == 0:
                    yield found.st_ino, found.st_blocks * 512
        except OSError:
            continue
