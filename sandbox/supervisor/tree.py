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
FREEZES = 40
"""Rounds of stopping before a tree is held to outrun us."""


class Tree:
    """Ends all that bears one mark, round by round, so that other jobs are served meanwhile.

    They are stopped before they are killed: a stopped fork bomb keeps its places under
    the pids limit, so it cannot grow while it is cleared away.
    """

    def __init__(self, mark: int, uid: int) -> None:
        self.mark, self.uid = mark, uid
        self.seen: set[int] = set()
        self.rounds = 0
        self.spreading = True

    def end(self, live: Container[int]) -> bool:
        """One round; True when nothing is left. Marks that are not `live` are nobody's."""
        alive = {pid for pid, mark in marked() if mark == self.mark or mark not in live}
        self.spreading = bool(alive - self.seen) and self.rounds <= FREEZES
        self.seen |= alive
        self.rounds += 1
        if alive and self.rounds > FREEZES:
            kill_all_of(self.uid)
        for pid in alive:
            kill(pid, signal.SIGSTOP if self.spreading else signal.SIGKILL)
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


def kill_all_of(uid: int) -> None:
    """The last resort, for a tree that outruns us: it ends every job of its user's."""
    os.setresuid(uid, uid, 0)
    kill(-1, signal.SIGKILL)
    os.setresuid(0, 0, 0)


def kill(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)
