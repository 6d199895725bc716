"""The process that a worker starts for one run: `python -P -m flows.host.run_process`.

If the worker has a fork server, a fork of it executes the run: it has imported everything
already, which saves three seconds of processor time per run. This process forwards signals to the
fork and exits with its status. Without a fork server it executes the run itself. It exists for the
whole run, so it imports nothing of Harness and little of the standard library.
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
"""Environment variable with the name of the fork server's abstract socket."""

ENGINE = "flows.host.engine_process"
"""Module that executes the run named by the environment."""

STATUS = struct.Struct("i")
"""Wait status of the run's process."""

_CREDENTIALS = struct.Struct("3i")


def main() -> None:
    """Let the fork server execute the run, or execute it here."""
    with socket.socket(socket.AF_UNIX) as server:
        run = _forked(server)
        if run is not None:
            _end_like(_status(server, run))
    runpy.run_module(ENGINE, run_name="__main__", alter_sys=True)


def peer(connection: socket.socket) -> int:
    """Return the pid of the process at the other end.

    Raises:
        PermissionError: the process belongs to another user.
    """
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, user, _ = _CREDENTIALS.unpack(credentials)
    if user != os.getuid():
        raise PermissionError(f"process {pid} belongs to user {user}")
    return int(pid)


def _forked(server: socket.socket) -> int | None:
    """Return a pidfd of the fork that executes the run; None without a fork server."""
    name = os.environ.get(FORK_SERVER)
    if not name:
        return None
    with suppress(
        PermissionError
    ):  # else a signal to the worker's group arrives here and in the fork
        os.setsid()
    with suppress(OSError):
        server.connect(f"\0{name}")
        peer(server)
        _, found, _, _ = socket.recv_fds(server, 1, 1)
        return found[0] if found else None
    return None


def _status(server: socket.socket, run: int) -> int:
    """Wait until the fork ends and return its status; forward signals to it meanwhile."""

    def forward(sign: int, _: object) -> None:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(run, sign)

    for sign in (signal.SIGTERM, signal.SIGINT):
        signal.signal(sign, forward)
    received = server.recv(STATUS.size)
    if received:
        return int(STATUS.unpack(received)[0])
    # The fork server died. Wait for the run; its status cannot be known.
    select.select([run], [], [])
    return 1 << 8


def _end_like(status: int) -> None:
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        with suppress(OSError):  # SIGKILL has no handler to reset
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)


if __name__ == "__main__":
    main()
