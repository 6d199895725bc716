"""Ending a process tree that does not want to end."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

AGENT = 1000
"""User and group id of everything that is not the supervisor."""
FREEZES = 40
"""Rounds of stopping before a tree is held to outrun us."""


def end_tree() -> set[int]:
    """Kill every descendant of this process and wait until none is left; give their pids.

    They are stopped before they are killed: a stopped fork bomb keeps its places under
    the pids limit, so it cannot grow while it is cleared away.
    """
    seen: set[int] = set()
    rounds = 0
    while reap():
        alive = descendants(os.getpid())
        fresh, seen, rounds = alive - seen, seen | alive, rounds + 1
        freeze = bool(fresh) and rounds <= FREEZES
        if rounds > FREEZES:
            kill_all_of_agent()
        for pid in alive:
            kill(pid, signal.SIGSTOP if freeze else signal.SIGKILL)
        if not freeze:
            signal.sigtimedwait((signal.SIGCHLD,), 0.01)
    return seen


def descendants(root: int) -> set[int]:
    """Living processes below `root`; zombies do not count."""
    children: dict[int, list[int]] = {}
    living: set[int] = set()
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):  # noqa: PTH208
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
                state, parent = file.read().rpartition(b")")[2].split()[:2]
        except (FileNotFoundError, ProcessLookupError):
            continue
        children.setdefault(int(parent), []).append(pid)
        if state not in b"ZX":
            living.add(pid)
    found, todo = set(), [root]
    while todo:
        below = children.get(todo.pop(), [])
        found.update(below)
        todo.extend(below)
    return found & living


def reap() -> bool:
    """Reap what has ended; True when children remain."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def kill_all_of_agent() -> None:
    """The last resort, for a tree that outruns us: it ends every job, not only ours."""
    os.setresuid(AGENT, AGENT, 0)
    kill(-1, signal.SIGKILL)
    os.setresuid(0, 0, 0)


def kill(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)
