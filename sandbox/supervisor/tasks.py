"""Reading and writing files in a fork, as the sandbox user, over the pipes of a job."""

from __future__ import annotations

import errno
import json
import os
import signal
import stat
from typing import Any, NoReturn

from sandbox.supervisor.frames import CHUNK, read_exactly, write_all
from sandbox.supervisor.users import AGENT


def be_task(request: dict[str, Any], pipes: tuple[int, int, int]) -> NoReturn:
    """Do the task and exit; an error is one JSON object on standard error."""
    code = 1
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        for target, fd in enumerate(pipes):
            os.dup2(fd, target)
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        os.setresuid(AGENT, AGENT, AGENT)
        TASKS[request["task"]](request)
        code = 0
    except OSError as error:
        name = errno.errorcode.get(error.errno or 0, "?")
        write_all(2, json.dumps({"errno": name, "error": error.strerror}).encode())
    except ValueError as error:
        write_all(2, json.dumps({"errno": "EINVAL", "error": str(error)}).encode())
    finally:
        os._exit(code)


def send_file(request: dict[str, Any]) -> None:
    """Write the content of a file to standard output."""
    left = request["limit"] + 1
    fd = open_regular(request["path"], request["root"], os.O_RDONLY)
    while left and (data := os.read(fd, min(left, CHUNK))):
        left -= len(data)
        write_all(1, data)
    if not left:
        raise OSError(errno.EFBIG, f"larger than {request['limit']} bytes")


def take_files(request: dict[str, Any]) -> None:
    """Write files whose contents come one after the other on standard input."""
    for path, size in request["files"]:
        os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120  bytes-safe
        fd = open_regular(path, request["root"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for data in read_exactly(0, size):
            write_all(fd, data)
        os.close(fd)


TASKS = {"read": send_file, "write": take_files}


def open_regular(path: str, root: str, flags: int) -> int:
    """Open a regular file; refuse a FIFO or a device without blocking.

    A path below `root` must also be below it after its links are resolved.
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
