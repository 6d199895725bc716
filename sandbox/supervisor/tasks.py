"""The tasks: each runs in a fork, as the sandbox user, with the job's pipes as 0, 1 and 2."""

from __future__ import annotations

import errno
import json
import os
import signal
import stat
from typing import Any, NoReturn

from sandbox.supervisor.frames import CHUNK, read_exactly, write_all

PUMP_FD = 3
"""Where a shepherd and its job tell the pump what happened, one JSON object a line."""


def run_program(request: dict[str, Any]) -> NoReturn:
    """Become the program; what comes back is why it could not be started."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    argv, cwd, env = request["argv"], request["cwd"], request["env"]
    try:
        os.chdir(cwd)
    except OSError as error:
        fail(126, f"cannot work in {cwd!r}: {error.strerror}")
    why = become(argv, env)
    missing = why.errno in (errno.ENOENT, errno.ENOTDIR)
    fail(127 if missing else 126, f"cannot run {argv[0]!r}: {why.strerror}")


def become(argv: list[str], env: dict[str, str]) -> OSError:
    """Try each place on PATH; a file that may not be run counts for more than none."""
    found = OSError(errno.ENOENT, os.strerror(errno.ENOENT))
    places = [""] if "/" in argv[0] else env["PATH"].split(":")
    for place in places:
        try:
            os.execve(os.path.join(place, argv[0]), argv, env)  # noqa: S606, PTH118  bytes-safe
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                found = error
    return found


def fail(code: int, reason: str) -> NoReturn:
    report(launch_error=reason)
    os._exit(code)


def send_file(request: dict[str, Any]) -> None:
    """Write the file to standard output."""
    left = request["limit"] + 1
    fd = open_regular(request["path"], request["root"], os.O_RDONLY)
    while left and (data := os.read(fd, min(left, CHUNK))):
        left -= len(data)
        write_all(1, data)
    if not left:
        raise OSError(errno.EFBIG, f"larger than {request['limit']} bytes")


def take_files(request: dict[str, Any]) -> None:
    """Read the files from standard input, one after the other."""
    for path, size in request["files"]:
        os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120  bytes-safe
        fd = open_regular(path, request["root"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for data in read_exactly(0, size):
            write_all(fd, data)
        os.close(fd)


TASKS = {"exec": run_program, "read": send_file, "write": take_files}


def open_regular(path: str, root: str, flags: int) -> int:
    """Open a regular file and nothing else; a FIFO or a device neither hangs nor opens.

    A path that looks inside `root` must also be inside when its links are followed.
    """
    real = os.path.realpath(path)
    inside = (os.path.realpath(root) + "/", root + "/")
    if os.path.normpath(path).startswith(inside) and not real.startswith(inside):
        raise OSError(errno.ELOOP, f"a link out of {root}")
    fd = os.open(real, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, 0o644)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.ENXIO, "not a regular file")
    return fd


def report(**facts: object) -> None:
    write_all(PUMP_FD, json.dumps(facts).encode() + b"\n")
