"""Starting a process as an unprivileged user, from process 1, which is root.

A job is a program, or a task: a fork that reads or writes files over the pipes of the job.

A program is started by `posix_spawn`, which shares memory until the program runs; a fork would
copy the page tables for every command. The child inherits the user, so for that moment the real
user of process 1 is that user, and only its saved user is root. A command could kill any other
process in that state, but not process 1, and cannot trace it.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pwd import struct_passwd
from typing import Any, NoReturn

from sandbox.supervisor.frames import CHUNK, read_exactly, write_all
from sandbox.supervisor.users import AGENT

_OF_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
"""Signals that Python ignores, and that a program must get with their default action."""

LOWEST_PRIORITY, HIGHEST_PRIORITY = 19, -20


class LaunchFailed(Exception):
    """No process was started. `code` is the exit code that a shell would give."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class Launcher:
    """Starts the processes of jobs, each with its mark."""

    def __init__(self) -> None:
        self._may_raise_priority = _can_raise_priority()
        os.setresgid(AGENT, AGENT, AGENT)
        self._score = os.open("/proc/self/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC)
        self._may_lower_score = self._can_lower_score()
        self._env = {"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8"}

    def start(
        self, request: dict[str, Any], user: struct_passwd, mark: int, pipes: tuple[int, int, int]
    ) -> int:
        """Start a process with these pipes as 0, 1 and 2; return its pid.

        Raises:
            LaunchFailed: no process could be started.
        """
        os.setgroups([mark])
        try:
            with self._killed_first():
                if request["task"] in TASKS:
                    return _fork() or be_task(request, pipes)
                env = {**self._env, "HOME": user.pw_dir, **request["env"]}
                with self._before_all_others():
                    with _as(user):
                        pid = _spawn(request["argv"], request["cwd"], env, pipes)
                    _lower_priority(user.pw_uid)
                return pid
        except BlockingIOError as error:  # the limit of processes
            raise LaunchFailed(126, f"no process can be started: {error.strerror}") from error

    @contextmanager
    def _before_all_others(self) -> Iterator[None]:
        """Raise our priority until that of a new process is lowered.

        A process that forks meanwhile would have children whose priority stays.
        """
        if self._may_raise_priority:
            os.setpriority(os.PRIO_PROCESS, 0, HIGHEST_PRIORITY)
        try:
            yield
        finally:
            if self._may_raise_priority:
                os.setpriority(os.PRIO_PROCESS, 0, 0)

    def _can_lower_score(self) -> bool:
        """Return whether a raised score can be lowered again; gVisor refuses that."""
        os.pwrite(self._score, b"1", 0)
        try:
            os.pwrite(self._score, b"0", 0)
        except PermissionError:
            return False
        return True

    @contextmanager
    def _killed_first(self) -> Iterator[None]:
        """Have the kernel kill processes started meanwhile before us when memory runs out."""
        if not self._may_lower_score:
            yield
            return
        os.pwrite(self._score, b"500", 0)
        try:
            yield
        finally:
            os.pwrite(self._score, b"0", 0)


@contextmanager
def _as(user: struct_passwd) -> Iterator[None]:
    os.setresgid(user.pw_gid, user.pw_gid, user.pw_gid)
    os.setresuid(user.pw_uid, user.pw_uid, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)
        os.setresgid(AGENT, AGENT, AGENT)


def _can_raise_priority() -> bool:
    """Return whether process 1 may raise its priority, which its children then do not inherit.

    A rootless engine and gVisor refuse it.
    """
    try:
        os.sched_setscheduler(0, os.SCHED_OTHER | os.SCHED_RESET_ON_FORK, os.sched_param(0))
        os.setpriority(os.PRIO_PROCESS, 0, HIGHEST_PRIORITY)
        os.setpriority(os.PRIO_PROCESS, 0, 0)
    except OSError:
        return False
    return True


def _lower_priority(uid: int) -> None:
    """Give all processes of this user the lowest priority: there may be a thousand of them.

    The real user of process 1 stays root, so that it is not one of them.
    """
    os.seteuid(uid)
    try:
        with suppress(OSError):  # it has ended already, or this kernel has no such call
            os.setpriority(os.PRIO_USER, uid, LOWEST_PRIORITY)
    finally:
        os.seteuid(0)


def _spawn(argv: list[str], cwd: str, env: dict[str, str], pipes: tuple[int, int, int]) -> int:
    try:
        os.chdir(cwd)
    except (OSError, ValueError) as error:
        raise LaunchFailed(126, f"cannot work in {cwd!r}: {_reason(error)}") from error
    actions = [(os.POSIX_SPAWN_DUP2, fd, target) for target, fd in enumerate(pipes)]
    failed: OSError = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    for path in _candidates(argv[0], env["PATH"]):
        try:
            return os.posix_spawn(
                path,
                argv,
                env,
                file_actions=actions,
                setsid=True,
                setsigmask=(),
                setsigdef=_OF_PYTHON,
            )
        except BlockingIOError:
            raise
        except ValueError as error:
            raise LaunchFailed(126, f"cannot run {argv[0]!r}: {error}") from error
        except OSError as error:  # a file that may not be run is the better error than none found
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                failed = error
    missing = failed.errno in (errno.ENOENT, errno.ENOTDIR)
    raise LaunchFailed(127 if missing else 126, f"cannot run {argv[0]!r}: {failed.strerror}")


def _fork() -> int:
    try:
        return os.fork()
    except OSError as error:  # also ENOMEM, which must not end process 1
        raise LaunchFailed(126, f"no process can be started: {error.strerror}") from error


def _candidates(program: str, path: str) -> list[str]:
    """Return the existing files that may be the program: cheaper than starting each."""
    if "/" in program or "\0" in program:
        return [program]
    places = [os.path.join(place, program) for place in path.split(":")]  # noqa: PTH118  bytes-safe
    return [place for place in places if os.access(place, os.F_OK)]


def _reason(error: OSError | ValueError) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error)


def be_task(request: dict[str, Any], pipes: tuple[int, int, int]) -> NoReturn:
    """Do the task and exit; an error is one JSON object on standard error."""
    code = 1
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        for target, fd in enumerate(pipes):
            os.dup2(fd, target)
        # Descriptors of other jobs are open in this fork.
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
    mode = os.fstat(fd).st_mode
    if not stat.S_ISREG(mode):
        os.close(fd)
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        raise OSError(errno.ENXIO, "not a regular file")
    return fd
