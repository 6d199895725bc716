"""The event loop of the supervisor: one process serves the stream and every job."""

from __future__ import annotations

import os
import selectors
import signal
import time
from contextlib import suppress
from typing import Any, NoReturn

from sandbox.supervisor.frames import (
    CHUNK,
    HEADER,
    HELLO,
    HELLO_PAYLOAD,
    MAGIC,
    MAX_REQUEST,
    RUN,
    write_all,
)
from sandbox.supervisor.users import AGENT, find_user

FLUSH = 1 << 18
"""Bytes that are buffered before a write, and the size of the pipe to the docker daemon."""
F_SETPIPE_SZ = 1031
"""`fcntl.F_SETPIPE_SZ`, which Python has from 3.10 on."""
HOSTS = "/etc/hosts"
LOCALHOST = b"127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n"


class EventLoop:
    """Moves bytes between the stream and the jobs, until the stream ends.

    A hello that is already waiting is answered before the modules for jobs are loaded.
    """

    def __init__(self) -> None:
        self.selector = selectors.DefaultSelector()
        self.agent = find_user(str(AGENT))
        self.jobs: Any = None
        self.ports: Any = None
        self.disk: Any = None
        self.disk_mb = 0
        self.wake = woken_by(signal.SIGCHLD)
        self.received = bytearray()
        self.outgoing: list[bytes] = []
        self.held = 0

    def serve(self) -> NoReturn:
        self.watch(0, self.read_stream)
        self.act(0)
        self.flush()
        self.load()
        self.watch(self.wake, self.reap)
        while True:
            self.act(self.jobs.patience())
            now = time.monotonic()
            self.jobs.tick(now)
            self.disk.tick(now)
            self.flush()

    def act(self, patience: float | None) -> None:
        """Wait up to `patience` seconds for events, and call their callbacks."""
        for key, _ in self.selector.select(patience):
            if self.selector.get_map().get(key.fd) is key:
                key.data()

    def load(self) -> None:
        """Load the modules for jobs: half of the start-up, which the harness need not wait for."""
        from fcntl import fcntl

        from sandbox.supervisor.disk import Disk
        from sandbox.supervisor.jobs import Jobs

        self.jobs, self.disk = Jobs(self), Disk(self)
        if self.disk_mb:
            self.disk.set_limit(self.disk_mb << 20)
        with suppress(OSError):
            fcntl(1, F_SETPIPE_SZ, FLUSH)
        write_hosts_file()

    def send(self, kind: int, channel: int, payload: bytes) -> None:
        self.outgoing += (HEADER.pack(MAGIC, kind, channel, len(payload)), payload)
        self.held += len(payload)
        if self.held > FLUSH:
            self.flush()

    def flush(self) -> None:
        if self.outgoing:
            write_all(1, b"".join(self.outgoing))
            self.outgoing, self.held = [], 0

    def watch(self, fd: Any, act: Any, *, event: int = selectors.EVENT_READ) -> None:
        """Call `act` after these events of a descriptor or socket, instead of earlier ones."""
        if fd in self.selector.get_map():
            self.selector.modify(fd, event, act)
        else:
            self.selector.register(fd, event, act)

    def unwatch(self, fd: Any) -> None:
        if fd in self.selector.get_map():
            self.selector.unregister(fd)

    def read_stream(self) -> None:
        data = os.read(0, 4 * CHUNK)
        if not data:
            raise EOFError
        self.received += data
        while len(self.received) >= HEADER.size:
            magic, kind, channel, size = HEADER.unpack_from(self.received)
            if magic != MAGIC or size > MAX_REQUEST:
                raise EOFError
            if len(self.received) < HEADER.size + size:
                return
            payload = bytes(self.received[HEADER.size : HEADER.size + size])
            del self.received[: HEADER.size + size]
            self.handle(kind, channel, payload)

    def handle(self, kind: int, channel: int, payload: bytes) -> None:
        if kind == RUN:
            self.run(channel, payload)
        elif kind == HELLO:
            ttl_s, self.disk_mb = HELLO_PAYLOAD.unpack(payload)
            end_after(ttl_s)
            if self.disk is not None:
                self.disk.set_limit(self.disk_mb << 20)
            self.send(HELLO, 0, b"")
        else:
            self.jobs.handle(kind, channel, payload)
            if self.ports is not None:
                self.ports.handle(kind, channel, payload)

    def give_up(self, why: str) -> NoReturn:
        """End the sandbox; the harness reads the reason from standard error."""
        write_all(2, why.encode())
        os._exit(0)

    def reap(self) -> None:
        os.read(self.wake, CHUNK)
        self.jobs.reap()

    def run(self, channel: int, payload: bytes) -> None:
        import json  # with what jobs need

        request = json.loads(payload)
        if request["task"] == "listen":
            self.listen(channel, request)
        else:
            self.jobs.open(channel, request)

    def listen(self, channel: int, request: dict[str, Any]) -> None:
        if self.ports is None:
            from sandbox.supervisor.port_forward import (
                PortForwards,  # sockets are a third of the start-up
            )

            self.ports = PortForwards(self)
        self.ports.open(channel, request)


def woken_by(number: signal.Signals) -> int:
    """Return a pipe that becomes readable after each such signal."""
    wake, woken = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    signal.signal(number, lambda *_: None)
    return wake


def end_after(ttl_s: float) -> None:
    """End process 1, and all others with it, after that time even while it is blocked.

    A command can send the signal early, which has no effect, but it cannot delay the timer.
    """
    end = time.monotonic() + ttl_s
    signal.signal(signal.SIGALRM, lambda *_: time.monotonic() < end or os._exit(0))
    signal.setitimer(signal.ITIMER_REAL, ttl_s, 1.0)


def write_hosts_file() -> None:
    """Add localhost to /etc/hosts: docker does so only for containers with a network.

    An image whose file belongs to another user keeps it: root here may not write every file.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK
    with suppress(OSError):
        hosts = os.open(HOSTS, flags, 0o644)
        if b"localhost" not in os.read(hosts, CHUNK):
            os.write(hosts, LOCALHOST)
        os.close(hosts)


def main(ttl_s: float) -> NoReturn:
    """Serve the stream until it ends; all other processes end with process 1."""
    try:
        end_after(ttl_s)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        EventLoop().serve()
    except (EOFError, BrokenPipeError):
        pass
    except BaseException:  # noqa: BLE001  the last door of a process: the harness reads this
        import traceback  # a fifth of the start-up time, and needed by none but this

        traceback.print_exc()
    finally:
        os._exit(0)
