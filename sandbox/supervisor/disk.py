"""The limit for all files of a sandbox.

A container has no disk quota, so the supervisor measures: rarely while the free space of the disk
stays the same, at once when it has fallen. Over the limit, all running commands are ended.
"""

from __future__ import annotations

import json
import math
import os
import time
from typing import Any

from sandbox.supervisor.frames import CHUNK

POLL_S = 0.25
"""Interval at which the free space is read: one system call."""
MEASURE_S = 15.0
"""Interval at which files are measured while the free space stays the same."""
STEP = 16
"""Files are measured at once when the free space falls by this fraction of the limit."""
MAX_OVERRUNS = 8
"""Times that the files may reach a new maximum above the limit before the sandbox is ended."""


class Disk:
    """Measures the files while jobs run, in a forked process."""

    def __init__(self, loop: Any) -> None:
        self.loop = loop
        self.limit = 0
        self.used = self.maximum = self.overruns = 0
        self.free, self.fallen = free_space(), 0
        self.next_poll = self.next_measure = math.inf
        self.measured_at = 0.0
        self.measuring = self.ending_jobs = self.is_new_maximum = False

    def set_limit(self, limit: int) -> None:
        self.limit = self.maximum = limit
        self.next_poll = 0.0
        self.next_measure = time.monotonic() + MEASURE_S

    def tick(self, now: float) -> None:
        if self.ending_jobs and not self.measuring and not self.loop.jobs.any_out_of_disk():
            self.ending_jobs, self.is_new_maximum = False, True
            self.measure(now)
        if now < self.next_poll or self.measuring:
            return
        self.next_poll = now + POLL_S
        if now >= self.next_measure or self.free - free_space() > self.limit // STEP:
            self.measure(now)

    def measure(self, now: float) -> None:
        self.next_measure, self.measured_at, self.measuring = now + MEASURE_S, now, True
        before, self.free = self.free, free_space()
        self.fallen = max(0, before - self.free)
        result, write_end = os.pipe()
        os.setgroups([])  # the mark of the last job would have the fork ended with that job
        try:
            if os.fork() == 0:
                from sandbox.supervisor.measure import measure_and_exit  # compiled when needed

                measure_and_exit(write_end, self.loop.jobs.users)
        except OSError:
            self.next_measure = now
        finally:
            os.close(write_end)
        self.loop.watch(result, lambda: self.take_result(result))

    def take_result(self, result: int) -> None:
        """Read a measurement; above the limit, end the jobs unless the files have not grown.

        A command that begins on a full disk can so clear it up. Where some files could not be
        seen, the fall of the free space counts as their growth.
        """
        found = os.read(result, CHUNK)
        self.loop.unwatch(result)
        os.close(result)
        self.measuring = False
        if not found:
            return
        used, saw_all = json.loads(found)
        if not saw_all:
            used = max(used, self.used + self.fallen)
        self.used = used
        room = self.limit // STEP
        if self.is_new_maximum:
            # What ended jobs wrote at last is not counted against jobs that begin now.
            self.is_new_maximum, self.maximum = False, max(self.maximum, used + room)
        if used > self.maximum:
            # Writing files to the disk adds blocks for where their parts lie, after any command.
            self.maximum, self.overruns = used + room, self.overruns + 1
            if self.overruns > MAX_OVERRUNS:
                self.loop.give_up(
                    f"its files take {used >> 20} MiB of the {self.limit >> 20} that they may"
                )
            self.loop.jobs.end_all_for_disk(self.measured_at)
            self.ending_jobs = True
        elif used <= self.limit:
            self.maximum, self.overruns = self.limit, 0


def free_space() -> int:
    found = os.statvfs("/")
    return found.f_bfree * found.f_frsize
