"""The process that a worker starts for one run: `python -P -m flows.host.run_process`.

Where its worker keeps a fork server, a child of that does the run, at once. This process hands
on what it is told, and ends as the run did. Elsewhere it does the run itself. It stands beside
every run, so it imports nothing of ours and little of Python's.
"""

import os
import runpy
import select
import signal
import socket
import struct
import sys
from contextlib import suppress

FORK_SERVER = "HARNESS_FORK_SERVER"
"""The variable with the name of the worker's fork server: a socket that is no file."""

ENGINE = "flows.host.engine_process"
"""The module that does the run that its environment names."""

STATUS = struct.Struct("i")
"""How a run's process ended, as `wait` tells it."""

_CREDENTIALS = struct.Struct("3i")


def main() -> None:
    """Have the run done, or do it."""
    with socket.socket(socket.AF_UNIX) as server:
        run = _forked(server)
        if run is not None:
            _end_like(_status(server, run))
    runpy.run_module(ENGINE, run_name="__main__", alter_sys=True)


def peer(connection: socket.socket) -> int:
    """The pid at the other end.

    Raises:
        PermissionError: it belongs to another user.
    """
    asked = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, user, _ = _CREDENTIALS.unpack(asked)
    if user != os.getuid():
        raise PermissionError(f"process {pid} belongs to user {user}")
    return int(pid)


def _forked(server: socket.socket) -> int | None:
    """A descriptor of the run's process; None when nobody forks one for us."""
    name = os.environ.get(FORK_SERVER)
    if not name:
        return None
    with suppress(PermissionError):  # what ends the worker's group is not meant for us twice
        os.setsid()
    with suppress(OSError):
        server.connect(f"\0{name}")
        peer(server)
        _, found, _, _ = socket.recv_fds(server, 1, 1)
        return found[0] if found else None
    return None


def _status(server: socket.socket, run: int) -> int:
    """Wait for the end of the run's process; handing on signals meanwhile."""

    def hand_on(sign: int, _: object) -> None:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(run, sign)

    for sign in (signal.SIGTERM, signal.SIGINT):
        signal.signal(sign, hand_on)
    told = server.recv(STATUS.size)
    if told:
        return int(STATUS.unpack(told)[0])
    # The fork server is gone; the run is not, and nobody can tell how it will end.
    select.select([run], [], [])
    return 1 << 8


def _end_like(status: int) -> None:
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        with suppress(OSError):  # SIGKILL has no other way
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)


if __name__ == "__main__":
    main()
