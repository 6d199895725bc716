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
from typing import Any

from sandbox.supervisor.frames import CHUNK

LOOK_S = 0.25
"""Between two looks at the free space, which cost next to nothing."""
MEASURE_S = 15.0
"""Between two measurements of a disk that gets no fuller."""
STEP = 16
"""A fall of the free space by a 16th of the limit is a reason to measure."""
OVERRUNS = 8
"""How often more may be found than ever before, with nobody clearing up, until all is ended."""


class Disk:
    """Measures while jobs run, in a fork of its own; `pump` has the jobs."""

    def __init__(self, pump: Any) -> None:
        self.pump = pump
        self.limit = 0
        self.used = self.most = self.overruns = 0
        self.written: dict[str, int] = {}
        self.written_by_ended = self.ended_before = 0
        self.free, self.fallen = free(), 0
        self.next_look = self.next_measure = math.inf
        self.measuring = self.ended_any = False

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
        self.next_measure, self.measuring = now + MEASURE_S, True
        before, self.free = self.free, free()
        self.fallen = before - self.free
        self.ended_before = self.pump.jobs.written_by_ended
        told, tell = os.pipe()
        os.setgroups([])  # without the mark of the last job, which would end us with its own
        try:
            if os.fork() == 0:
                from sandbox.supervisor.measure import be_measure  # compiled where it is needed

                be_measure(tell, self.pump.jobs.users)
        except OSError:
            self.next_measure = now
        finally:
            os.close(tell)
        self.pump.watch(told, lambda: self.learn(told))

    def learn(self, told: int) -> None:
        """Take the numbers; too much ends who adds to it, and not who clears up. Those who come
        again and again, and each time leave more behind, end the sandbox.

        What was written while we looked may be in the files or not: it counts this time, and
        the next time again. Where not all was seen, as folders were moved about or a process
        holds what nobody may look at, all that was written since the last time is taken to be
        there, or what the free space fell by.
        """
        found = os.read(told, CHUNK)
        self.pump.unwatch(told)
        os.close(told)
        self.measuring = False
        if not found:
            return
        used, saw_all, before, written = json.loads(found)
        ended_before, self.ended_any = self.ended_any, False
        if not saw_all:
            used = max(used, self.used + max(self.fallen, self.written_since(written)))
        if used > self.most:
            self.most, self.overruns = used, self.overruns + 1
            if self.overruns > OVERRUNS:
                self.pump.give_up(
                    f"its files take {used >> 20} MiB of the {self.limit >> 20} that they may"
                )
            culprits = self.culprits(used - self.used, written, ended_before)
            self.ended_any = bool(culprits)
            self.pump.jobs.out_of_disk(culprits)
        elif used <= self.limit:
            self.most, self.overruns = self.limit, 0
        self.used, self.written = used, before
        self.written_by_ended = self.ended_before

    def written_since(self, written: dict[str, int]) -> int:
        """By all jobs since the last time, those that ended included."""
        return self.by_ended() + sum(self.by_living(written).values())

    def by_living(self, written: dict[str, int]) -> dict[Any, int]:
        """Of each job, what it wrote since the last time."""
        jobs = {job: str(job.tree.mark) for job in self.pump.jobs.channels.values()}
        return {job: written.get(m, 0) - self.written.get(m, 0) for job, m in jobs.items()}

    def by_ended(self) -> int:
        """What jobs that ended since the last time have written since."""
        living = {str(job.tree.mark) for job in self.pump.jobs.channels.values()}
        known = sum(n for mark, n in self.written.items() if mark not in living)
        all_of_it: int = self.pump.jobs.written_by_ended - self.written_by_ended
        return max(0, all_of_it - known)

    def culprits(self, growth: int, written: dict[str, int], ended_before: bool) -> list[Any]:
        """The jobs that wrote most of the growth; all jobs, where those do not explain it.

        Where the disk was too full before, all that wrote noticeably: what a job that was ended
        for it still wrote meanwhile, excuses nobody. Right after a measurement for which jobs were
        `ended_before`, jobs that wrote nothing noticeable are spared: on a slow machine
        the growth is what the ended ones wrote at last.
        """
        more, explained = self.by_living(written), self.by_ended()
        if ended_before and max(more.values(), default=0) <= self.limit // STEP:
            return []
        was_too_full = self.used > self.limit
        found: list[Any] = []
        for job in sorted(more, key=lambda job: -more[job]):
            excused = not was_too_full or more[job] <= self.limit // STEP
            if 2 * explained >= growth and excused:
                return found
            explained += more[job]
            found.append(job)
        return found


def free() -> int:
    found = os.statvfs("/")
    return found.f_bfree * found.f_frsize
