"""A process that has imported what commands need, and executes each of them in a fork.

    python -P -m flows.host.fork_server NAME MODULE         until its standard input ends
    python -P -m flows.host.fork_server NAME MODULE IDLE_S  until no command came for so long

The module has `get_ready`, called once before any fork, and `main`, which executes a command. A
fork takes its arguments, environment, folder and streams from the process that asks for it, with
`fork_client`; the fork server never holds them. It forks with one thread, no connection and no
open file. It takes no more commands once the code or the installed packages have changed, and
ends when its last fork has ended.
"""

import atexit
import gc
import json
import os
import selectors
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from sysconfig import get_path
from typing import NamedTuple

from flows.host.fork_client import SIZE, STATUS, peer, start_variables
from flows.services.daemon import code_version

_BACKLOG = 128

_PATIENCE_S = 5.0
"""Seconds in which a process must have sent its whole request."""

_NAMESPACES = ("mnt", "net", "pid", "user")


class _Request(NamedTuple):
    pid: int
    streams: tuple[int, ...]
    """None if the server shall end."""
    arguments: list[str]
    env: dict[str, str]


class _Fork(NamedTuple):
    pid: int
    process: int
    """Pidfd of the fork."""
    requester: int
    """Connection to the process that asked, readable once that has ended."""


def listens(name: str) -> bool:
    """Return True if a fork server with this name accepts commands."""
    with socket.socket(socket.AF_UNIX) as server:
        return server.connect_ex(f"\0{name}") == 0


def main() -> None:
    """Fork until it is time to end; in each fork, execute the command."""
    name, module, *idle_s = sys.argv[1:]
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(f"\0{name}")
    except OSError:  # another one was faster
        return
    # What is asked meanwhile waits, as a process of its own would import the same.
    listener.listen(_BACKLOG)
    # Signals to the worker's group are not for the server. Forks would inherit SIG_IGN.
    stops = (signal.SIGTERM, signal.SIGINT)
    signal.pthread_sigmask(signal.SIG_BLOCK, stops)
    server = _Server(listener, float(idle_s[0]) if idle_s else None)
    program = import_module(module)
    program.get_ready()
    if len(list(Path("/proc/self/task").iterdir())) > 1:
        raise SystemExit(f"{module} has more than one thread: nothing is forked from it")
    # A collection in a fork writes to every object, which copies the pages it shares.
    gc.collect()
    gc.freeze()
    request = server.serve()
    if request is None:
        return
    _become(request)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, stops)
    with fast_exit():
        program.main()


class _Server:
    """Answers requests until the owner's pipe ends, nothing came for `idle_s`, or code changed."""

    def __init__(self, listener: socket.socket, idle_s: float | None) -> None:
        self._listener = listener
        self._idle_s = idle_s
        self._owner = sys.stdin.fileno()
        self._code = _code()
        self._variables = start_variables(os.environ)
        self._watched = selectors.DefaultSelector()

    def serve(self) -> _Request | None:
        """Return the request in each fork, None when the server ends."""
        self._watched.register(self._listener.fileno(), selectors.EVENT_READ)
        if self._idle_s is None:
            self._watched.register(self._owner, selectors.EVENT_READ)
        while keys := self._watched.get_map():
            has_forks = any(isinstance(key.data, _Fork) for key in keys.values())
            ready = self._watched.select(None if has_forks else self._idle_s)
            if not ready:
                return None
            key, _ = ready[0]
            match key.data:
                case _Fork() as fork if key.fd == fork.process:
                    self._report_end(fork)
                case _Fork() as fork:
                    self._watched.unregister(fork.requester)
                    signal.pidfd_send_signal(fork.process, signal.SIGKILL)
                case _ if key.fd == self._owner:
                    self._take_no_more()
                case _:
                    request = self._answer()
                    if request is not None:
                        return request
        return None

    def _answer(self) -> _Request | None:
        """Fork for the next request; return the request in the fork."""
        connection, _ = self._listener.accept()
        with connection:
            # Without an answer, the process executes its command itself.
            request = _receive(connection)
            if request is None:
                return None
            if not request.streams:
                self._take_no_more()
                return None
            try:
                if self._fits(request):
                    return self._fork(request, connection)
            finally:
                for stream in request.streams:
                    os.close(stream)
        return None

    def _fits(self, request: _Request) -> bool:
        """Return True if a fork would do the same as a new process of the requester."""
        if _code() != self._code:
            self._take_no_more()
            return False
        if start_variables(request.env) != self._variables:
            return False
        with suppress(OSError):  # it has ended
            return _place(request.pid) == _place(os.getpid())
        return False

    def _fork(self, request: _Request, connection: socket.socket) -> _Request | None:
        try:
            pid = os.fork()
        except OSError:
            return None
        if pid == 0:
            # Descriptors of other forks and of the worker would stay open in this one.
            for key in tuple(self._watched.get_map().values()):
                os.close(key.fd)
            self._watched.close()
            self._listener.detach()
            for number, stream in enumerate(request.streams):
                os.dup2(stream, number)
            return request
        fork = _Fork(pid, os.pidfd_open(pid), os.dup(connection.fileno()))
        for descriptor in (fork.process, fork.requester):
            self._watched.register(descriptor, selectors.EVENT_READ, fork)
        with suppress(OSError):  # the requester has ended: its fork is killed
            socket.send_fds(connection, (b".",), (fork.process,))
        return None

    def _report_end(self, fork: _Fork) -> None:
        _, status = os.waitpid(fork.pid, 0)
        with suppress(OSError):  # the requester has ended
            os.write(fork.requester, STATUS.pack(status))
        for descriptor in (fork.process, fork.requester):
            with suppress(KeyError):
                self._watched.unregister(descriptor)
            os.close(descriptor)

    def _take_no_more(self) -> None:
        for descriptor in (self._owner, self._listener.fileno()):
            with suppress(KeyError):
                self._watched.unregister(descriptor)
        self._listener.close()


def _receive(connection: socket.socket) -> _Request | None:
    """Read a request; None if the other end is of another user, or asked for nothing."""
    connection.settimeout(_PATIENCE_S)
    with suppress(OSError):
        pid = peer(connection)
        size, streams, _, _ = socket.recv_fds(connection, SIZE.size, 3)
        if len(size) == SIZE.size:
            with connection.makefile("rb") as rest:
                given = json.loads(rest.read(*SIZE.unpack(size)) or "{}")
            return _Request(pid, tuple(streams), given.get("arguments", []), given.get("env", {}))
    return None


def _become(request: _Request) -> None:
    """Take the session, environment, folder and signals of the process that asked."""
    os.setsid()
    os.environ.clear()
    os.environ.update(request.env)
    sys.argv[1:] = request.arguments
    with suppress(OSError):  # else the fork is about to be killed, with the process that asked
        os.chdir(f"/proc/{request.pid}/cwd")
        status = _process_status(request.pid)
        os.umask(int(status["Umask"], 8))
        ignored = int(status["SigIgn"], 16)
        for sign in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):  # as under nohup
            if ignored >> (sign - 1) & 1:
                signal.signal(sign, signal.SIG_IGN)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(line_buffering=stream is sys.stderr or stream.isatty())


def _code() -> tuple[object, ...]:
    """Return the versions of our code and of the installed packages."""
    return code_version(), Path(get_path("purelib")).stat().st_mtime


def _place(pid: int) -> tuple[object, ...]:
    """Return the namespaces and groups of a process, which a fork cannot take over.

    Raises:
        OSError: the process has ended.
    """
    found = (os.readlink(f"/proc/{pid}/ns/{name}") for name in _NAMESPACES)  # noqa: PTH115 - no path
    return *found, _process_status(pid)["Groups"]


def _process_status(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


@contextmanager
def fast_exit() -> Iterator[None]:
    """End the process with this block: threads and exit functions first, then `os._exit`.

    A normal exit of Python clears modules, which copies every page that a fork shares with its
    parent (0.25 s). Any exception but SystemExit ends the process as usual, with a traceback.
    """
    code = 0
    try:
        yield
    except SystemExit as ended:
        if not isinstance(ended.code, int | None):
            raise
        code = ended.code or 0
    vars(threading)["_shutdown"]()
    atexit._run_exitfuncs()
    with suppress(OSError, ValueError):  # else Python prints the error and exits with 120
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    raise SystemExit(code)


if __name__ == "__main__":
    main()
