"""Commands that no longer get on: noticing one early, and asking its processes for their stacks."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from contextlib import suppress

STACKS_S = 3.0
"""Seconds that processes have to write their stacks before they are killed."""
LOOK_S = 1.0
BUSY = 0.9
"""Share of the looks at which a process was running or ready to run, to count as busy."""


class StuckWatch:
    """Tells whether a command has written nothing for a time while a process of it stayed busy.

    A process that waits for a processor counts as busy, so that a loaded machine makes no
    difference.
    """

    def __init__(self, after_s: float, now: float) -> None:
        self.after_s = after_s
        self.next_look = now
        self.written(now)

    def written(self, now: float) -> None:
        self.since, self.looks = now, 0
        self.busy: dict[int, int] = {}

    def is_due(self, now: float) -> bool:
        return now >= self.next_look

    def look(self, now: float, pids: Iterable[int]) -> bool:
        """Count the busy processes; return True if the command is stuck."""
        self.next_look = now + LOOK_S
        self.looks += 1
        for pid in pids:
            if is_busy(pid):
                self.busy[pid] = self.busy.get(pid, 0) + 1
        if now - self.since < self.after_s:
            return False
        stuck = max(self.busy.values(), default=0) >= BUSY * self.looks
        if not stuck:
            self.written(now)
        return stuck


def is_busy(pid: int) -> bool:
    """Return whether a thread of the process is running or ready to run."""
    with suppress(OSError):
        tasks = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208  no pathlib
        return any(stat_fields(f"{pid}/task/{task}")[0] == b"R" for task in tasks)
    return False


def ask_for_stacks(pids: Iterable[int]) -> bool:
    """Ask Python, Java and Go tests for their stacks; return whether any process was asked.

    Python must run with `PYTHONFAULTHANDLER`. A parent of an asked process only waits for it, and
    its end would end the command before the child has written.
    """
    asked = {pid: number for pid in pids if (number := signal_for_stacks(pid))}
    parents = {int(stat_fields(str(pid))[1]) for pid in asked}
    for pid in asked.keys() - parents:
        with suppress(OSError):
            os.kill(pid, asked[pid])
    return bool(asked)


def signal_for_stacks(pid: int) -> int:
    """Return the signal at which a program writes its stacks, or 0."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:  # noqa: PTH123  no pathlib
            program = file.read(4096).partition(b"\0")[0].rpartition(b"/")[2]
    except OSError:
        return 0
    if program.startswith((b"python", b"pypy")):
        return signal.SIGABRT
    return signal.SIGQUIT if program == b"java" or program.endswith(b".test") else 0


def stat_fields(task: str) -> list[bytes]:
    """Return state, parent and the fields that follow of a process or thread."""
    try:
        with open(f"/proc/{task}/stat", "rb") as file:  # noqa: PTH123  no pathlib
            return file.read().rpartition(b")")[2].split()
    except OSError:
        return [b"X", b"0"]
