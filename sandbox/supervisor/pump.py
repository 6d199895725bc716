"""The pump: one process that serves the stream and every job."""

from __future__ import annotations

import fcntl
import json
import os
import pwd
import selectors
import signal
import sys
import termios
import traceback
from functools import partial
from typing import Any, NoReturn

from sandbox.supervisor.frames import (
    CHUNK,
    DONE,
    HEADER,
    HELLO,
    INPUT,
    MAGIC,
    MAX_REQUEST,
    RUN,
    STOP,
    TAKEN,
    write_all,
)
from sandbox.supervisor.job import Job, Shepherd
from sandbox.supervisor.shepherd import no_process
from sandbox.supervisor.tree import AGENT, kill

IDLE_SHEPHERDS = 2
"""How many are kept waiting, in turn: one makes ready while the other has a job."""


class Pump:
    """Moves bytes between the stream and the jobs, until the stream ends."""

    def __init__(self) -> None:
        self.selector = selectors.DefaultSelector()
        self.jobs: dict[int, Job] = {}
        self.idle = [Shepherd() for _ in range(IDLE_SHEPHERDS)]
        self.buffer = bytearray()
        home = pwd.getpwuid(AGENT).pw_dir
        path = os.environ.get("PATH", os.defpath)
        self.env = {"PATH": path, "HOME": home, "LANG": "C.UTF-8"}

    def serve(self) -> NoReturn:
        self.watch(0, self.read_stream)
        self.send(HELLO, 0, b"")
        while True:
            for key, _ in self.selector.select():
                if self.selector.get_map().get(key.fd) is key:
                    key.data()

    def send(self, kind: int, channel: int, payload: bytes) -> None:
        write_all(1, HEADER.pack(MAGIC, kind, channel, len(payload)) + payload)

    def watch(self, fd: int, act: Any, *, event: int = selectors.EVENT_READ) -> None:
        if fd not in self.selector.get_map():
            self.selector.register(fd, event, act)

    def unwatch(self, fd: int) -> None:
        if fd in self.selector.get_map():
            self.selector.unregister(fd)

    def read_stream(self) -> None:
        data = os.read(0, 4 * CHUNK)
        if not data:
            raise EOFError
        self.buffer += data
        while len(self.buffer) >= HEADER.size:
            magic, kind, channel, size = HEADER.unpack_from(self.buffer)
            if magic != MAGIC or size > MAX_REQUEST:
                raise EOFError
            if len(self.buffer) < HEADER.size + size:
                return
            payload = bytes(self.buffer[HEADER.size : HEADER.size + size])
            del self.buffer[: HEADER.size + size]
            self.handle(kind, channel, payload)

    def handle(self, kind: int, channel: int, payload: bytes) -> None:
        if kind == RUN:
            self.run(channel, json.loads(payload))
        job = self.jobs.get(channel)
        if job is None:
            return
        if kind == INPUT:
            job.input_ended = not payload
            job.pending += payload
            self.offer_input(job)
        elif kind == TAKEN:
            job.credit += int.from_bytes(payload, "big")
            self.listen(job)
        elif kind == STOP:
            job.stopped = True
            kill(job.shepherd.pid, signal.SIGTERM)
            for output in tuple(job.outputs):
                self.close_output(job, output)

    def run(self, channel: int, request: dict[str, Any]) -> None:
        if "env" in request:
            request["env"] = {**self.env, **request["env"]}
        try:
            shepherd = self.idle.pop(0) if self.idle else Shepherd()
        except OSError as error:
            self.send(DONE, channel, json.dumps(no_process(error)).encode())
            return
        job = self.jobs[channel] = Job(channel, shepherd, json.dumps(request).encode())
        self.watch(shepherd.socket.fileno(), partial(self.hear, job))
        self.listen(job)

    def offer_input(self, job: Job) -> None:
        """Write what the job takes now; come back when it takes more."""
        taken = len(job.pending)
        try:
            if taken and job.stdin >= 0:
                taken = os.write(job.stdin, job.pending[:CHUNK])
        except BlockingIOError:
            taken = 0
        except BrokenPipeError:
            self.close_input(job)
        if taken:
            del job.pending[:taken]
            self.send(TAKEN, job.channel, taken.to_bytes(4, "big"))
        if job.stdin < 0:
            return
        if job.pending:
            self.watch(job.stdin, partial(self.offer_input, job), event=selectors.EVENT_WRITE)
        elif job.input_ended:
            self.close_input(job)
        else:
            self.unwatch(job.stdin)

    def close_input(self, job: Job) -> None:
        if job.stdin >= 0:
            self.unwatch(job.stdin)
            os.close(job.stdin)
            job.stdin = -1

    def listen(self, job: Job) -> None:
        """Watch the job's output while the harness has room for it."""
        for kind, fd in job.outputs.items():
            if job.credit > 0:
                self.watch(fd, partial(self.forward, job, kind))
            else:
                self.unwatch(fd)

    def forward(self, job: Job, kind: int) -> None:
        data = os.read(job.outputs[kind], min(CHUNK, job.credit, job.left[kind]))
        if data:
            self.send(kind, job.channel, data)
            job.credit -= len(data)
            self.listen(job)
        if job.ended:
            job.left[kind] -= len(data)
        if not data or not job.left[kind]:
            self.close_output(job, kind)
            self.finish(job)

    def close_output(self, job: Job, kind: int) -> None:
        fd = job.outputs.pop(kind)
        self.unwatch(fd)
        os.close(fd)

    def hear(self, job: Job) -> None:
        """Take the shepherd's report; with its last line the whole tree is dead."""
        data = job.shepherd.socket.recv(CHUNK)
        *lines, job.heard = (job.heard + data).split(b"\n")
        for line in lines:
            job.facts.update(json.loads(line))
        if not data or "crash" in job.facts:
            raise RuntimeError(f"a shepherd died: {job.facts.get('crash', 'killed')}")
        if "exit_code" in job.facts:
            self.end(job)

    def end(self, job: Job) -> None:
        """Read what the pipes hold now and no more: others may hold their far ends."""
        job.ended = True
        self.unwatch(job.shepherd.socket.fileno())
        if job.stopped or len(self.idle) >= IDLE_SHEPHERDS:
            job.shepherd.dismiss()
        else:
            self.idle.append(job.shepherd)
        for kind, fd in tuple(job.outputs.items()):
            waiting = fcntl.ioctl(fd, termios.FIONREAD, b"\0" * 4)
            job.left[kind] = int.from_bytes(waiting, sys.byteorder)
            if not job.left[kind]:
                self.close_output(job, kind)
        self.finish(job)

    def finish(self, job: Job) -> None:
        if job.ended and not job.outputs:
            self.close_input(job)
            del self.jobs[job.channel]
            self.send(DONE, job.channel, json.dumps(job.facts).encode())


def main() -> None:
    """Serve the stream; at its end kill everything, so that the container stops."""
    try:
        Pump().serve()
    except (EOFError, BrokenPipeError):
        pass
    except BaseException:  # noqa: BLE001  the last door of a process: the harness reads this
        traceback.print_exc()
    finally:
        os.kill(-1, signal.SIGKILL)
