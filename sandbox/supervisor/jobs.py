"""All jobs: how each begins, how its end is noticed, and that nothing of it is left."""

from __future__ import annotations

import json
import math
import os
import time
from contextlib import suppress
from typing import Any

from sandbox.supervisor.disk import LOOK_S
from sandbox.supervisor.frames import CHUNK, DONE, STOP, shorten
from sandbox.supervisor.job import Job, KernelCounts
from sandbox.supervisor.launch import Launcher, LaunchFailed
from sandbox.supervisor.process_tree import FIRST_MARK, MARKS, ProcessTree, children, orphans
from sandbox.supervisor.users import find_user

OOM_COUNTERS = ("/sys/fs/cgroup/memory/memory.oom_control", "/sys/fs/cgroup/memory.events")
PROCESS_COUNTERS = ("/sys/fs/cgroup/pids/pids.current", "/sys/fs/cgroup/pids.current")
CROWD = 200
"""Processes and threads: to look at so many takes seconds while they run, and none is ordinary."""
FORK_COUNTERS = ("/sys/fs/cgroup/pids/pids.events", "/sys/fs/cgroup/pids.events")
ROUND_S = 0.01
"""How long killed processes are given to go before they are looked for again."""


class Jobs:
    """The jobs that have not ended; `pump` has the stream and the selector."""

    def __init__(self, pump: Any) -> None:
        self.pump = pump
        self.launcher = Launcher()
        self.channels: dict[int, Job] = {}
        self.leaders: dict[int, Job] = {}
        self.marks: set[int] = set()
        self.agent = pump.agent
        self.users = {self.agent}
        self.written_by_ended = 0
        self.oom_kills = KernelCounter(OOM_COUNTERS, b"oom_kill")
        self.processes = KernelCounter(PROCESS_COUNTERS)
        self.failed_forks = KernelCounter(FORK_COUNTERS, b"max")

    def open(self, channel: int, request: dict[str, Any]) -> None:
        name = request.get("user")
        try:
            user = self.agent if name is None else find_user(name)
            tree = ProcessTree(self.free_mark(channel), user.pw_uid)
            private = request.get("private", False)
            job = Job(self.pump, channel, tree, has_input=request["input"], private=private)
        except LookupError as error:
            self.say(channel, no_process(126, str(error)))
            return
        except OSError as error:
            self.say(channel, no_process(126, f"no process can be started: {error.strerror}"))
            return
        job.begin(request["timeout_s"], self.counted(), self.channels.values())
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
        """Seconds until `tick` is due; None: when something happens."""
        jobs = self.channels.values()
        if not jobs:
            return None
        clearing = [job for job in jobs if job.ending and not job.ended]
        if clearing:
            return 0.0 if any(job.tree.spreading for job in clearing) else ROUND_S
        left = min(job.deadline for job in jobs) - time.monotonic()
        return min(max(0.0, left), LOOK_S)

    def tick(self, now: float) -> None:
        """End what is over its time, go on with ending what has not gone yet."""
        for job in tuple(self.channels.values()):
            if not job.ending and now >= job.deadline:
                job.timed_out = True
                self.kill(job)
            elif job.ending and not job.ended:
                self.clear(job)
            elif job.ended and not job.outputs:
                self.close(job)

    def reap(self) -> None:
        """Take the end of every child: of jobs, and of what they orphaned."""
        with suppress(ChildProcessError):
            while (found := os.wait4(-1, os.WNOHANG))[0]:
                job = self.leaders.pop(found[0], None)
                if job is not None:
                    job.status, job.ended_at = found[1], time.monotonic()
                    self.written_by_ended += found[2].ru_oublock * 512
                    self.settle(job)

    def out_of_disk(self, jobs: list[Job]) -> None:
        """End these, because of what they wrote."""
        for job in jobs:
            if not job.ending:
                job.out_of_disk = True
                self.kill(job)

    def settle(self, job: Job) -> None:
        """The leader has ended; so has the job, unless there may be orphans of it."""
        if job.ending or children() - self.leaders.keys():
            self.kill(job)
        else:
            job.ending, job.deadline = True, math.inf
            self.end(job)

    def kill(self, job: Job) -> None:
        job.ending, job.deadline = True, math.inf
        self.clear(job)

    def clear(self, job: Job) -> None:
        crowded = self.processes.now() > CROWD
        gone = job.tree.end(self.marks, alone=self.alone(job), crowded=crowded)
        if gone and job.pid not in self.leaders:
            others = self.marks - {job.tree.mark}
            if not orphans(self.leaders, others):
                self.end(job)

    def alone(self, job: Job) -> bool:
        """Whether no other job has processes of the same user."""
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
        self.pump.send(DONE, channel, json.dumps(facts).encode())

    def counted(self) -> KernelCounts:
        return KernelCounts(self.oom_kills.now(), self.failed_forks.now())


class KernelCounter:
    """A number that the kernel counts for this container, in the first of these files there is.

    It follows its name; without a name it is the only word of the file.
    """

    def __init__(self, paths: tuple[str, ...], name: bytes = b"") -> None:
        self.name, self.file = name, -1
        for path in paths:
            with suppress(OSError):
                self.file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                break

    def now(self) -> int:
        """The number; 0 where the kernel does not count it."""
        words = [b"", *os.pread(self.file, CHUNK, 0).split()] if self.file >= 0 else []
        return int(words[words.index(self.name) + 1]) if self.name in words else 0


def no_process(code: int, reason: str) -> dict[str, object]:
    return {"exit_code": code, "launch_error": shorten(reason)}
