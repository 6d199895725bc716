"""The processes of one job, found by a mark that none of them can take off.

The mark is a supplementary group. A process without privilege cannot leave a group,
and hands it on to every child: so neither a new session nor a double fork nor an empty
environment hides a process.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Container
from contextlib import suppress

FIRST_MARK, MARKS = 10_000, 50_000
GENTLE_ROUNDS, ALL_ROUNDS = 2, 20
"""Rounds that found new processes: after the first number every process of the user is stopped for
a moment, after the second every process of the user is killed, those of other jobs too."""


class ProcessTree:
    """Ends all that bears one mark, round by round, so that other jobs are served meanwhile.

    They are stopped before they are killed: a stopped fork bomb keeps its places under
    the pids limit, so it cannot grow while it is cleared away.
    """

    def __init__(self, mark: int, uid: int) -> None:
        self.mark, self.uid = mark, uid
        self.seen: set[int] = set()
        self.grown = 0
        self.spreading = True

    def end(self, live: Container[int], *, alone: bool, crowded: bool) -> bool:
        """One round; True when nothing is left. Marks that are not `live` are nobody's.

        With `alone`, no other job runs as this user: one system call then stops all of the
        user's processes and another kills them, however many they are. Beside other jobs, all
        are stopped for a moment when the sandbox is `crowded`, or when the tree grows
        faster than its processes can be stopped one by one.
        """
        at_once = alone or (self.spreading and (crowded or self.grown >= GENTLE_ROUNDS))
        if at_once:
            signal_all_of(self.uid, signal.SIGSTOP)
        alive = {pid for pid, mark in marked() if mark == self.mark or mark not in live}
        self.spreading = bool(alive - self.seen)
        self.grown += self.spreading
        self.seen |= alive
        if alone or (self.spreading and self.grown > ALL_ROUNDS):
            signal_all_of(self.uid, signal.SIGKILL)
        for pid in alive:
            kill(pid, signal.SIGSTOP if self.spreading and not at_once else signal.SIGKILL)
        if at_once and not alone:
            signal_all_of(self.uid, signal.SIGCONT)
        return not alive


def marked(*, zombies: bool = False) -> list[tuple[int, int]]:
    """Living processes that bear a mark, with it; and, when asked, zombies.

    Who is born while we look may be missing: `orphans` tells.
    """
    found = []
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):  # noqa: PTH208  no pathlib
        mark, lives = look(pid)
        if mark and (zombies or lives):
            found.append((pid, mark))
    return found


def look(pid: int) -> tuple[int, bool]:
    """The mark of a process, 0 for none, and whether it lives: without its first thread, too."""
    try:
        with open(f"/proc/{pid}/status", "rb", buffering=0) as file:  # noqa: PTH123  no pathlib
            status = file.read()
    except (FileNotFoundError, ProcessLookupError):
        return 0, False
    groups = field(status, b"Groups").split()
    mark = int(groups[0]) if len(groups) == 1 and pid != 1 else 0
    over = field(status, b"State")[:1] in (b"Z", b"X") and int(field(status, b"Threads") or 1) < 2
    return mark if FIRST_MARK <= mark < FIRST_MARK + MARKS else 0, not over


def field(status: bytes, name: bytes) -> bytes:
    return status.partition(b"\n%b:" % name)[2].partition(b"\n")[0].strip()


def orphans(leaders: Container[int], others: Container[int]) -> bool:
    """Whether a child of ours is, or may have left us, one that bears no mark of these others.

    A list of all processes is no proof that nobody is left: one that is born after it was made,
    by a parent that is dead when we come to it, is not in it. But whoever outlives its parents is
    a child of ours from that moment on; and one that has ended meanwhile may have left us more,
    until it is reaped.
    """
    seen = [look(pid) for pid in children() if pid not in leaders]
    return any(not lives or (mark and mark not in others) for mark, lives in seen)


def children() -> set[int]:
    """Our own children; what a job orphans is among them."""
    with open("/proc/1/task/1/children", "rb", buffering=0) as file:  # noqa: PTH123  no pathlib
        return set(map(int, file.read().split()))


def signal_all_of(uid: int, number: int) -> None:
    """Send a signal to every process of this user at once: no fork can outrun it."""
    os.setresuid(uid, uid, 0)
    kill(-1, number)
    os.setresuid(0, 0, 0)


def kill(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)
