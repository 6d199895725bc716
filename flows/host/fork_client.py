"""Has a fork server execute a command as if it were this process.

    status = run_forked(name, sys.argv[1:])
    if status is not None:
        end_like(status)

The fork gets the arguments, environment, folder and streams of this process. This process forwards
signals to it and ends as it ends; when this process is killed, so is the fork. It exists as long
as the fork, so this module imports nothing of Harness and little of the standard library.
"""

import json
import os
import re
import select
import signal
import socket
import struct
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress

STATUS = struct.Struct("i")
"""Wait status of the fork."""

SIZE = struct.Struct("I")
"""Bytes of the JSON that follows it."""

READ_AT_START = re.compile(r"PREFECT_(?!_)|PYTHON|LD_|LANG|LC_|(TZ|HOME|TMPDIR)$")
"""Variables that Python or an import reads only once: another value needs a new process."""

_CREDENTIALS = struct.Struct("3i")
_STREAMS = (0, 1, 2)
_FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)


def run_forked(name: str, arguments: Sequence[str]) -> int | None:
    """Let the fork server with this name execute the arguments, and return the wait status.

    Return None if there is no such server, or if it would not do the same as a new process.
    """
    with socket.socket(socket.AF_UNIX) as server:
        fork = _ask(server, name, arguments)
        return None if fork is None else _status(server, fork)


def _ask(server: socket.socket, name: str, arguments: Sequence[str]) -> int | None:
    """Return a pidfd of the fork that executes the arguments; None if there is none."""
    with suppress(OSError):
        server.connect(f"\0{name}")
        peer(server)
        given = json.dumps({"arguments": arguments, "env": dict(os.environ)}).encode()
        socket.send_fds(server, (SIZE.pack(len(given)),), _STREAMS)
        server.sendall(given)
        _, found, _, _ = socket.recv_fds(server, 1, 1)
        return found[0] if found else None
    return None


def stop(name: str) -> None:
    """Have the fork server end after the commands that it executes."""
    with socket.socket(socket.AF_UNIX) as server, suppress(OSError):
        server.connect(f"\0{name}")
        server.sendall(SIZE.pack(0))


def start_variables(env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that only a new process would take over."""
    return {name: value for name, value in env.items() if READ_AT_START.match(name)}


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


def end_like(status: int) -> None:
    """End this process with the exit code or by the signal of this wait status."""
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        with suppress(OSError):  # SIGKILL has no handler to reset
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)


def _status(server: socket.socket, fork: int) -> int:
    """Wait until the fork ends and return its status; forward signals to it meanwhile."""

    def forward(sign: int, _: object) -> None:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(fork, sign)

    def stop(*_: object) -> None:
        forward(signal.SIGSTOP, None)
        os.kill(os.getpid(), signal.SIGSTOP)
        forward(signal.SIGCONT, None)

    for sign in _FORWARDED:
        if signal.getsignal(sign) != signal.SIG_IGN:  # as under nohup
            signal.signal(sign, forward)
    if signal.getsignal(signal.SIGTSTP) != signal.SIG_IGN:
        signal.signal(signal.SIGTSTP, stop)
    with suppress(ConnectionError):
        if received := server.recv(STATUS.size):
            return int(STATUS.unpack(received)[0])
    # The fork server died. Wait for the fork; its status cannot be known.
    select.select([fork], [], [])
    return 1 << 8
