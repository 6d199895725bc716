"""Waiting for a process of this machine, however slow the machine is.

There is no limit in seconds while the process makes progress: it uses the processor, or waits
for its turn on a busy one. A process that does neither for a while is stuck.
"""

import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from time import monotonic

from flows.services.listening import process_tree

SAY_AFTER_S = 5.0
SAY_EVERY_S = 30.0
LOOK_EVERY_S = 0.5
BUSY_SHARE = 0.01
"""A process that is busy for less of the time than this only idles, as a server's loop does."""

LIMIT_S = 600.0
"""How long to wait where the system does not show what a process does."""


class Waiting:
    """One wait for one process: call `stuck` from time to time until it is over.

    Every half minute a line on stderr says that the wait goes on, beginning with `what`.
    """

    def __init__(self, pid: int, what: str, *, stuck_after_s: float) -> None:
        self._pid, self._what, self._stuck_after_s = pid, what, stuck_after_s
        self._began = self._progressed = self._looked = monotonic()
        self._say_at = self._began + SAY_AFTER_S
        self._seen = dict(_busy_s(pid))
        self._busy_s = 0.0

    def stuck(self) -> bool:
        """Whether the process has made no progress for `stuck_after_s`."""
        now = monotonic()
        if now >= self._say_at:
            self._say_at = now + SAY_EVERY_S
            sys.stderr.write(f"{self._what} ({now - self._began:.0f} s)\n")
            sys.stderr.flush()
        if now - self._looked >= min(LOOK_EVERY_S, self._stuck_after_s / 4):
            self._looked = now
            self._look(now)
        return now - self._progressed >= self._stuck_after_s

    def _look(self, now: float) -> None:
        if not _shows_what_processes_do():
            if now - self._began < LIMIT_S:
                self._progressed = now
            return
        seen = dict(_busy_s(self._pid))
        self._busy_s += sum(max(0.0, s - self._seen.get(task, 0.0)) for task, s in seen.items())
        self._seen = seen
        if self._busy_s >= BUSY_SHARE * self._stuck_after_s:
            self._busy_s, self._progressed = 0.0, now


def _shows_what_processes_do() -> bool:
    return Path("/proc/self/schedstat").exists()


def _busy_s(pid: int) -> Iterator[tuple[str, float]]:
    """For each thread of the process and its descendants: seconds that it ran or was ready to."""
    for one in process_tree(pid):
        with suppress(OSError):  # it has ended
            for task in Path("/proc", str(one), "task").iterdir():
                ran, waited, _ = (task / "schedstat").read_text().split()
                yield task.name, (int(ran) + int(waited)) / 1e9
