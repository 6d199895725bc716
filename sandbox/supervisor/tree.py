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
        if self.rounds > FREEZES:
            kill_all_of(self.uid)
        for pid in alive:
            kill(pid, signal.SIGSTOP if self.spreading else signal.SIGKILL)
        return not alive


def marked(*, zombies: bool = False) -> list[tuple[int, int]]:
    """Living processes that bear a mark, with it; and, when asked, zombies."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208  no pathlib
        try:
            with open(f"/proc/{name}/status", "rb", buffering=0) as file:  # noqa: PTH123  no pathlib
                status = file.read()
        except (FileNotFoundError, ProcessLookupError):
            continue
        groups = status.partition(b"\nGroups:")[2].partition(b"\n")[0].split()
        dead = status.partition(b"\nState:\t")[2][:1] in (b"Z", b"X")
        if len(groups) == 1 and (zombies or not dead) and name != "1":
            mark = int(groups[0])
            if FIRST_MARK <= mark < FIRST_MARK + MARKS:
                found.append((int(name), mark))
    return found


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
