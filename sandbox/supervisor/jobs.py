"""All jobs: starting them, noticing that they end, and ending what they leave behind."""

from __future__ import annotations

import json
import math
import os
import time
from contextlib import suppress
from typing import Any

from sandbox.supervisor.disk import POLL_S
from sandbox.supervisor.frames import CHUNK, DONE, STOP, shorten
from sandbox.supervisor.job import Job, KernelCounts
from sandbox.supervisor.launch import Launcher, LaunchFailed
from sandbox.supervisor.process_tree import (
    FIRST_MARK,
    MARKS,
    ProcessTree,
    children,
    has_orphans,
    marked_processes,
)
from sandbox.supervisor.stuck import STACKS_S, ask_for_stacks
from sandbox.supervisor.users import find_user

OOM_COUNTERS = ("/sys/fs/cgroup/memory/memory.oom_control", "/sys/fs/cgroup/memory.events")
PROCESS_COUNTERS = ("/sys/fs/cgroup/pids/pids.current", "/sys/fs/cgroup/pids.current")
CROWDED = 200
"""Processes and threads from which looking at them one by one takes seconds; unusual for work."""
FORK_COUNTERS = ("/sys/fs/cgroup/pids/pids.events", "/sys/fs/cgroup/pids.events")
ROUND_S = 0.01
"""Seconds that killed processes have to disappear before they are looked for again."""
PAUSE = 4
"""A round is followed by a pause so many times as long: a killed process needs a processor to end,
and the supervisor would come first."""


class Jobs:
    """The jobs that have not ended."""

    def __init__(self, loop: Any) -> None:
        self.loop = loop
        self.launcher = Launcher()
        self.channels: dict[int, Job] = {}
        self.leaders: dict[int, Job] = {}
        self.marks: set[int] = set()
        self.agent = loop.agent
        self.users = {self.agent}
        self.oom_kills = KernelCounter(OOM_COUNTERS, b"oom_kill")
        self.processes = KernelCounter(PROCESS_COUNTERS)
        self.failed_forks = KernelCounter(FORK_COUNTERS, b"max")

    def open(self, channel: int, request: dict[str, Any]) -> None:
        name = request.get("user")
        try:
            user = self.agent if name is None else find_user(name)
            tree = ProcessTree(self.free_mark(channel), user.pw_uid)
            private = request.get("private", False)
            job = Job(self.loop, channel, tree, has_input=request["input"], private=private)
        except LookupError as error:
            self.say(channel, no_process(126, str(error)))
            return
        except OSError as error:
            self.say(channel, no_process(126, f"no process can be started: {error.strerror}"))
            return
        job.begin(request, self.counted(), self.channels.values())
        try:
            job.pid = self.launcher.start(request, user, tree.mark, job.theirs)
        except LaunchFailed as failure:
            job.release()
            job.close()
            self.say(channel, no_process(failure.code, str(failure)))
            return
        job.release()
        self.leaders[job.pid] = self.channels[channel] = job
        self.marks.add(tree.mark)
        self.users.add(user)

    def free_mark(self, channel: int) -> int:
        while (mark := FIRST_MARK + channel % MARKS) in self.marks:
            channel += 1
        return mark

    def handle(self, kind: int, channel: int, payload: bytes) -> None:
        job = self.channels.get(channel)
        if job is None:
            return
        if kind == STOP:
            job.close()
            self.kill(job)
        else:
            job.handle(kind, payload)

    def patience(self) -> float | None:
        """Return the seconds until `tick` is due; None to wait for an event."""
        jobs = self.channels.values()
        if not jobs:
            return None
        clearing = [job for job in jobs if job.ending and not job.ended]
        if clearing:
            return max(0.0, min(job.next_round for job in clearing) - time.monotonic())
        left = min(job.deadline for job in jobs) - time.monotonic()
        return min(max(0.0, left), POLL_S)

    def tick(self, now: float) -> None:
        """End jobs that are over their time, and continue to end those that are not gone yet."""
        for job in tuple(self.channels.values()):
            if not job.ending and now >= job.deadline:
                self.time_out(job, now)
            elif not job.ending and self.is_stuck(job, now):
                job.stuck = True
                self.time_out(job, now)
            elif job.ending and not job.ended:
                if now >= job.next_round:
                    self.clear(job)
            elif job.ended and not job.outputs:
                self.close(job)

    def is_stuck(self, job: Job, now: float) -> bool:
        watch = job.watch
        if watch is None or job.timed_out or not watch.is_due(now):
            return False
        return watch.look(now, processes_of(job))

    def time_out(self, job: Job, now: float) -> None:
        """End a job; one that is to show its stacks gets a moment to write them."""
        asked = job.stacks and not job.timed_out and ask_for_stacks(processes_of(job))
        job.timed_out = True
        if asked:
            job.deadline = now + STACKS_S
        else:
            self.kill(job)

    def reap(self) -> None:
        """Reap every child that ended: leaders of jobs and orphans."""
        with suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                job = self.leaders.pop(found[0], None)
                if job is not None:
                    job.status, job.ended_at = found[1], time.monotonic()
                    self.settle(job)

    def any_out_of_disk(self) -> bool:
        """Return whether a job that was ended for the disk limit has not gone yet."""
        return any(job.out_of_disk for job in self.channels.values())

    def end_all_for_disk(self, measured_at: float) -> None:
        """End every job because the files take more than the limit.

        A job that began after the measurement is spared: the files were there before it.
        """
        for job in tuple(self.channels.values()):
            if not job.ending and job.began_at < measured_at:
                job.out_of_disk = True
                self.kill(job)

    def settle(self, job: Job) -> None:
        """End the job of a leader that has ended; at once if it can have left no orphans."""
        if job.ending or children() - self.leaders.keys():
            self.kill(job)
        else:
            job.ending, job.deadline = True, math.inf
            self.end(job)

    def kill(self, job: Job) -> None:
        job.ending, job.deadline = True, math.inf
        self.clear(job)

    def clear(self, job: Job) -> None:
        """Run one round of ending a job's processes, which then get more time to die."""
        began = time.monotonic()
        crowded = self.processes.now() > CROWDED
        gone = job.tree.end(self.marks, alone=self.alone(job), crowded=crowded)
        now = time.monotonic()
        job.next_round = now + max(PAUSE * (now - began), 0.0 if job.tree.spreading else ROUND_S)
        if gone and job.pid not in self.leaders:
            others = self.marks - {job.tree.mark}
            if not has_orphans(self.leaders, others):
                self.end(job)

    def alone(self, job: Job) -> bool:
        """Return whether no other job has processes of the same user."""
        running = (other for other in self.channels.values() if not other.ended)
        return all(other is job or other.tree.uid != job.tree.uid for other in running)

    def end(self, job: Job) -> None:
        self.marks.discard(job.tree.mark)
        job.end()
        if not job.outputs:
            self.close(job)

    def close(self, job: Job) -> None:
        del self.channels[job.channel]
        self.say(job.channel, job.facts(self.counted()))

    def say(self, channel: int, facts: dict[str, object]) -> None:
        self.loop.send(DONE, channel, json.dumps(facts).encode())

    def counted(self) -> KernelCounts:
        return KernelCounts(self.oom_kills.now(), self.failed_forks.now())


class KernelCounter:
    """A number that the kernel counts for this container, in the first of these files to exist.

    The number follows its name; without a name it is the only word of the file.
    """

    def __init__(self, paths: tuple[str, ...], name: bytes = b"") -> None:
        self.name, self.file = name, -1
        for path in paths:
            with suppress(OSError):
                self.file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                break

    def now(self) -> int:
        """Return the number; 0 if the kernel does not count it."""
        words = [b"", *os.pread(self.file, CHUNK, 0).split()] if self.file >= 0 else []
        return int(words[words.index(self.name) + 1]) if self.name in words else 0


def processes_of(job: Job) -> list[int]:
    return [pid for pid, mark in marked_processes() if mark == job.tree.mark]


def no_process(code: int, reason: str) -> dict[str, object]:
    return {"exit_code": code, "launch_error": shorten(reason)}
