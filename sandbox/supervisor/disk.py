"""How much the users' files take, and who is ended when that is too much.

No quota is to be had in a container, so it is measured: seldom while the disk below us
stays as it is, at once when it has become noticeably fuller. What a job's processes have
written since the last time tells whose files they are.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections import Counter
from collections.abc import Collection, Iterator
from typing import Any

from sandbox.supervisor.frames import CHUNK
from sandbox.supervisor.tree import marked
from sandbox.supervisor.users import User

LOOK_S = 0.25
"""Between two looks at the free space, which cost next to nothing."""
MEASURE_S = 15.0
"""Between two measurements of a disk that gets no fuller."""
STEP = 16
"""A fall of the free space by a 16th of the limit is a reason to measure."""
TOLD = 500
"""Marks whose writing is told: what a pipe holds at once."""
KERNEL = ("/proc", "/sys", "/dev")


class Disk:
    """Measures while jobs run, in a fork of its own; `pump` has the jobs."""

    def __init__(self, pump: Any) -> None:
        self.pump = pump
        self.limit = 0
        self.used = self.most = 0
        self.written: dict[str, int] = {}
        self.written_by_ended = 0
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
                be_measure(tell, self.pump.jobs.users)
        except OSError:
            self.next_measure = now
        finally:
            os.close(tell)
        self.pump.watch(told, lambda: self.learn(told))

    def learn(self, told: int) -> None:
        """Take the numbers; too much ends who adds to it, and not who clears up."""
        found = os.read(told, CHUNK)
        self.pump.unwatch(told)
        os.close(told)
        self.measuring = False
        if not found:
            return
        used, written = json.loads(found)
        if used > self.most:
            self.most = used
            self.pump.jobs.out_of_disk(self.culprits(used - self.used, written))
        elif used <= self.limit:
            self.most = self.limit
        self.used, self.written = used, written
        self.written_by_ended = self.pump.jobs.written_by_ended

    def culprits(self, growth: int, written: dict[str, int]) -> list[Any]:
        """Who wrote most of the growth; everybody, where what can be seen does not explain it."""
        jobs = {job: str(job.tree.mark) for job in self.pump.jobs.channels.values()}
        more = {job: written.get(m, 0) - self.written.get(m, 0) for job, m in jobs.items()}
        explained = self.pump.jobs.written_by_ended - self.written_by_ended
        found: list[Any] = []
        for job in sorted(more, key=lambda job: -more[job]):
            if 2 * explained >= growth:
                return found
            explained += more[job]
            found.append(job)
        return found


def free() -> int:
    found = os.statvfs("/")
    return found.f_bfree * found.f_frsize


def be_measure(tell: int, users: Collection[User]) -> None:
    """Tell what the files take, and what each mark's processes wrote; nobody can stop us.

    We look as each user does, but our real user stays root: no command may send us a signal.
    """
    try:
        os.setgroups([])
        os.nice(10)
        files: dict[tuple[int, int], int] = {}
        wrote: Counter[int] = Counter()
        for user in users:
            os.setresgid(user.gid, user.gid, user.gid)
            os.seteuid(user.uid)
            files.update(named(user.uid))
            files.update(unlinked())
            for mark, size in written():
                wrote[mark] += size
            os.seteuid(0)
        os.write(tell, json.dumps((sum(files.values()), dict(wrote.most_common(TOLD)))).encode())
    finally:
        os._exit(0)


def named(uid: int) -> Iterator[tuple[tuple[int, int], int]]:
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
        for entry in entries if os.access(place, os.W_OK, effective_ids=True) else ():
            try:
                found = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            if found.st_uid == uid:
                yield (found.st_dev, found.st_ino), found.st_blocks * 512


def unlinked() -> Iterator[tuple[tuple[int, int], int]]:
    """Inode and bytes of what is open and has no name any more."""
    for pid in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208
        try:
            for name in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208
                found = os.stat(f"/proc/{pid}/fd/{name}")  # noqa: PTH116
                if found.st_nlink == 0:
                    yield (found.st_dev, found.st_ino), found.st_blocks * 512
        except OSError:
            continue


def written() -> Iterator[tuple[int, int]]:
    """A mark, and what one of its processes and the children it waited for have written."""
    for pid, mark in marked():
        try:
            with open(f"/proc/{pid}/io", "rb", buffering=0) as file:  # noqa: PTH123
                words = file.read().split()
        except OSError:
            continue
        yield mark, int(words[words.index(b"write_bytes:") + 1])
