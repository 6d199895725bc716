"""The processes of one job, found by a mark that none of them can remove.

The mark is a supplementary group. A process without privilege cannot leave a group, and every
child inherits it: neither a new session nor a double fork nor an empty environment hides one.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Container
from contextlib import suppress

FIRST_MARK, MARKS = 10_000, 50_000
GENTLE_ROUNDS, ALL_ROUNDS = 2, 20
"""Rounds that found new processes. After the first number, every process of the user is stopped
for a moment. After the second, every process of the user is killed, those of other jobs too."""


class ProcessTree:
    """Ends all processes with one mark, in rounds, so that other jobs are served meanwhile.

    Processes are stopped before they are killed: a stopped fork bomb keeps its places under
    the pids limit, so it cannot grow while it is cleared away.
    """

    def __init__(self, mark: int, uid: int) -> None:
        self.mark, self.uid = mark, uid
        self.seen: set[int] = set()
        self.rounds_grown = 0
        self.spreading = True

    def end(self, live: Container[int], *, alone: bool, crowded: bool) -> bool:
        """Run one round; return True when no process is left.

        Processes with marks that are not `live` belong to no job and are ended too. With `alone`,
        no other job runs as this user: one system call then stops all of the user's processes and
        another kills them. Beside other jobs, all are stopped for a moment when the sandbox is
        `crowded`, or when the tree grows faster than its processes can be stopped one by one.
        """
        at_once = alone or (self.spreading and (crowded or self.rounds_grown >= GENTLE_ROUNDS))
        if at_once:
            signal_user(self.uid, signal.SIGSTOP)
        alive = {pid for pid, mark in marked_processes() if mark == self.mark or mark not in live}
        self.spreading = bool(alive - self.seen)
        self.rounds_grown += self.spreading
        self.seen |= alive
        if alone or (self.spreading and self.rounds_grown > ALL_ROUNDS):
            signal_user(self.uid, signal.SIGKILL)
        for pid in alive:
            kill(pid, signal.SIGSTOP if self.spreading and not at_once else signal.SIGKILL)
        if at_once and not alone:
            signal_user(self.uid, signal.SIGCONT)
        return not alive


def marked_processes(*, zombies: bool = False) -> list[tuple[int, int]]:
    """Return pid and mark of the living processes that have one, optionally of zombies too.

    A process that is born meanwhile may be missing; `has_orphans` finds it.
    """
    found = []
    for pid in pids():
        mark, alive = read_mark(pid)
        if mark and (zombies or alive):
            found.append((pid, mark))
    return found


def pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208  no pathlib


def read_mark(pid: int) -> tuple[int, bool]:
    """Return the mark of a process (0: none), and whether any of its threads lives."""
    status = read_status(pid)
    if not status:
        return 0, False
    groups = status_field(status, b"Groups").split()
    mark = int(groups[0]) if len(groups) == 1 and pid != 1 else 0
    ended = status_field(status, b"State")[:1] in (b"Z", b"X")
    ended = ended and int(status_field(status, b"Threads") or 1) < 2
    return mark if FIRST_MARK <= mark < FIRST_MARK + MARKS else 0, not ended


def read_status(pid: int) -> bytes:
    """Return what the kernel says of a process; nothing if it is gone."""
    try:
        with open(f"/proc/{pid}/status", "rb", buffering=0) as file:  # noqa: PTH123  no pathlib
            return file.read()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def status_field(status: bytes, name: bytes) -> bytes:
    return status.partition(b"\n%b:" % name)[2].partition(b"\n")[0].strip()


def has_orphans(leaders: Container[int], other_marks: Container[int]) -> bool:
    """Return whether process 1 has, or may get, a child without one of these marks.

    A list of all processes does not prove that none is left: a process born after the listing, of
    a parent that has died since, is not in it. But a process that outlives its parent becomes a
    child of process 1 at once, and an ended child may leave children until it is reaped.
    """
    marks = [read_mark(pid) for pid in children() if pid not in leaders]
    return any(not alive or (mark and mark not in other_marks) for mark, alive in marks)


def children() -> set[int]:
    """Return the children of process 1, orphans of jobs included.

    gVisor has no such list; there they are found among all processes.
    """
    try:
        with open("/proc/1/task/1/children", "rb", buffering=0) as file:  # noqa: PTH123  no pathlib
            return set(map(int, file.read().split()))
    except FileNotFoundError:
        return {pid for pid in pids() if status_field(read_status(pid), b"PPid") == b"1"}


def signal_user(uid: int, number: int) -> None:
    """Send a signal to every process of this user at once: no fork can outrun it."""
    os.setresuid(uid, uid, 0)
    kill(-1, number)
    os.setresuid(0, 0, 0)


def kill(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)
