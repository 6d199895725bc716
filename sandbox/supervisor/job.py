"""One job, and one shepherd, as the pump sees them."""

from __future__ import annotations

import os
import socket

from sandbox.supervisor.frames import CHUNK, STDERR, STDOUT, WINDOW
from sandbox.supervisor.shepherd import be_shepherd


class Shepherd:
    """The pump's end of one shepherd."""

    def __init__(self) -> None:
        self.socket, theirs = socket.socketpair()
        with theirs:
            self.pid = os.fork()
            if self.pid == 0:
                be_shepherd(theirs)

    def dismiss(self) -> None:
        self.socket.close()
        os.waitpid(self.pid, 0)


class Job:
    """One job as the pump sees it: its pipes, and what is on its way through them."""

    def __init__(self, channel: int, shepherd: Shepherd, request: bytes) -> None:
        self.channel = channel
        self.shepherd = shepherd
        take, self.stdin = os.pipe()
        stdout, out = os.pipe()
        stderr, err = os.pipe()
        self.outputs = {STDOUT: stdout, STDERR: stderr}
        self.left = {STDOUT: CHUNK, STDERR: CHUNK}
        self.pending = bytearray()
        self.input_ended = self.stopped = self.ended = False
        self.credit = WINDOW
        self.facts: dict[str, object] = {}
        self.heard = b""
        os.set_blocking(self.stdin, False)
        socket.send_fds(shepherd.socket, [len(request).to_bytes(4, "big")], [take, out, err])
        shepherd.socket.sendall(request)
        for fd in (take, out, err):
            os.close(fd)
