"""Forks runs from a process that has imported what they need.

    with forking("flows.host.engine_process"):  # in the worker
        ...  # a `flows.host.run_process` started here gets a fork

A fork takes its environment and working directory from the `flows.host.run_process` that asks for
it; the fork server never holds them. It forks with one thread, no connection and no open file, and
ends when its worker and the last run have ended.
"""

import atexit
import gc
import os
import re
import selectors
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from secrets import token_hex
from subprocess import PIPE, Popen
from sysconfig import get_path
from threading import Event, Thread
from typing import NamedTuple

from flows.config.environment import environment, set_variables
from flows.host.run_process import FORK_SERVER, STATUS, peer
from flows.services.daemon import code_version

_READ_AT_START = re.compile(r"PREFECT_(?!_)|PYTHON|LD_|LANG|LC_|TZ$")
"""Variables that Python or an import reads only once: another value needs a new process."""

_BACKLOG = 128

PAUSE_S = 15.0
"""Seconds before a fork server that died is started again, as starting costs seconds of a core."""


@contextmanager
def forking(module: str, env: Mapping[str, str]) -> Iterator[Popen[bytes]]:
    """Keep a fork server during the block, for each `flows.host.run_process` started in it.

    The module has `get_ready`, called once before any fork, and `main`, which executes a run. `env`
    overrides this process's variables. A fork server that dies is started again; until then, each
    run is a new process.
    """
    name, ended = f"harness-{token_hex(8)}", Event()
    servers = [_start_server(name, module, env)]

    def restart() -> None:
        while servers[-1].wait() is not None and not ended.wait(PAUSE_S):
            _close_stdin(servers[-1])
            servers.append(_start_server(name, module, env))

    Thread(target=restart, name="fork server", daemon=True).start()
    with set_variables({FORK_SERVER: name}):
        yield servers[0]
    ended.set()
    _close_stdin(servers[-1])


def _close_stdin(server: Popen[bytes]) -> None:
    if server.stdin is not None:
        server.stdin.close()


def _start_server(name: str, module: str, env: Mapping[str, str]) -> Popen[bytes]:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0{name}")
        listener.listen(_BACKLOG)
        return Popen(
            (sys.executable, "-P", "-m", "flows.host.fork_server", str(listener.fileno()), module),
            stdin=PIPE,  # its end tells the server that the worker has ended
            pass_fds=[listener.fileno()],
            env={**environment(), **env, FORK_SERVER: name},  # as in its runs
        )


class _Run(NamedTuple):
    pid: int
    process: int
    """Pidfd of the fork."""
    requester: int
    """Connection to the `run_process`, readable once that has ended."""


def main() -> None:
    """Fork until the worker ends; in each fork, execute the run."""
    listener, module = socket.socket(fileno=int(sys.argv[1])), sys.argv[2]
    start_conditions = _start_conditions()
    # Signals to the worker's group are not for the server. Forks would inherit SIG_IGN.
    stops = (signal.SIGTERM, signal.SIGINT)
    signal.pthread_sigmask(signal.SIG_BLOCK, stops)
    program = import_module(module)
    program.get_ready()
    if len(list(Path("/proc/self/task").iterdir())) > 1:
        raise SystemExit(f"{module} has more than one thread: none of its runs is forked")
    # A collection in a fork writes to every object, which copies the pages it shares.
    gc.collect()
    gc.freeze()
    requester = _serve(listener)
    if requester is None:
        return
    _become(requester)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, stops)
    sys.argv[1:] = []
    if _start_conditions() != start_conditions:
        os.execv(sys.executable, (sys.executable, "-P", "-m", module))  # noqa: S606 - no shell is meant
    with fast_exit():
        program.main()


def _serve(listener: socket.socket) -> int | None:
    """Answer requests; return the requester's pid in each fork, None when the server ends."""
    worker = sys.stdin.fileno()
    with selectors.DefaultSelector() as watched:
        watched.register(worker, selectors.EVENT_READ)
        watched.register(listener.fileno(), selectors.EVENT_READ)
        while watched.get_map():
            key, _ = watched.select()[0]
            match key.data:
                case _Run() as run if key.fd == run.process:
                    _report_end(run, watched)
                case _Run() as run:
                    watched.unregister(run.requester)
                    signal.pidfd_send_signal(run.process, signal.SIGKILL)
                case _ if key.fd == worker:
                    watched.unregister(worker)
                    watched.unregister(listener.fileno())
                    listener.close()
                case _:
                    requester = _fork(listener, watched)
                    if requester is not None:
                        return requester
    return None


def _fork(listener: socket.socket, watched: selectors.BaseSelector) -> int | None:
    """Fork for the next request; return the requester's pid in the fork."""
    connection, _ = listener.accept()
    with connection:
        try:
            requester, pid = peer(connection), os.fork()
        except OSError:  # without an answer, run_process executes the run itself
            return None
        if pid == 0:
            # Descriptors of other runs and of the worker would stay open in this run.
            for key in tuple(watched.get_map().values()):
                os.close(key.fd)
            listener.detach()
            os.dup2(os.open(os.devnull, os.O_RDONLY), sys.stdin.fileno())
            return requester
        run = _Run(pid, os.pidfd_open(pid), os.dup(connection.fileno()))
        for descriptor in (run.process, run.requester):
            watched.register(descriptor, selectors.EVENT_READ, run)
        with suppress(OSError):  # the requester has ended: its fork is killed below
            socket.send_fds(connection, (b".",), (run.process,))
    return None


def _report_end(run: _Run, watched: selectors.BaseSelector) -> None:
    _, status = os.waitpid(run.pid, 0)
    with suppress(OSError):  # the requester has ended
        os.write(run.requester, STATUS.pack(status))
    for descriptor in (run.process, run.requester):
        with suppress(KeyError):
            watched.unregister(descriptor)
        os.close(descriptor)


def _become(requester: int) -> None:
    """Take the environment and the working directory of the requesting process."""
    entries = Path(f"/proc/{requester}/environ").read_bytes().split(b"\0")
    pairs = (entry.partition(b"=") for entry in entries if entry)
    os.environb.clear()
    os.environb.update({name: value for name, _, value in pairs})
    os.chdir(f"/proc/{requester}/cwd")


def _start_conditions() -> tuple[object, ...]:
    """Return what a new process would start with: our code, installed packages, variables."""
    installed = Path(get_path("purelib")).stat().st_mtime
    read = {k: v for k, v in environment().items() if _READ_AT_START.match(k)}
    return code_version(), installed, read


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
