"""The shepherd: starts one job at a time, waits for it, and ends its tree."""

from __future__ import annotations

import ctypes
import errno
import json
import math
import os
import select
import signal
import socket
import struct
import time
import traceback
from contextlib import suppress
from typing import NoReturn

from sandbox.supervisor.frames import CHUNK, read_exactly
from sandbox.supervisor.tasks import PUMP_FD, TASKS, report
from sandbox.supervisor.tree import AGENT, end_tree

START = struct.Struct("d")
"""What a runner says when it begins a job: the job's time limit in seconds."""
LONG_S = 1e8
WAKERS = (signal.SIGCHLD, signal.SIGTERM)
OOM_COUNTERS = ("/sys/fs/cgroup/memory/memory.oom_control", "/sys/fs/cgroup/memory.events")
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


def be_shepherd(pump: socket.socket) -> NoReturn:
    """Tend one job after the other until the pump hangs up or dies."""
    try:
        os.dup2(pump.fileno(), PUMP_FD, inheritable=False)
        os.closerange(PUMP_FD + 1, os.sysconf("SC_OPEN_MAX"))
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        signal.pthread_sigmask(signal.SIG_BLOCK, WAKERS)
        counter = oom_counter()
        while (facts := tend_next(counter)) is not None:
            report(**facts)
    except BaseException:  # noqa: BLE001  the last door of a process: the pump reads this
        report(crash=traceback.format_exc())
    finally:
        os._exit(0)


def tend_next(counter: int) -> dict[str, object] | None:
    """Have a runner ready for the next job, tend it, tell how it went; None: no more jobs.

    The runner is forked before there is a job, so that a job need not wait for it.
    """
    try:
        ready, runner = start_runner()
    except OSError:
        select.select([PUMP_FD], [], [])
        try:
            ready, runner = start_runner()
        except OSError as error:
            request, pipes = take_request()
            for fd in pipes:
                os.close(fd)
            return no_process(error) if request else None
    began = os.read(ready, START.size)
    os.close(ready)
    return tend(runner, counter, *START.unpack(began)) if began else None


def start_runner() -> tuple[int, int]:
    ready, begin = os.pipe()
    try:
        runner = os.fork()
    except OSError:
        os.close(ready)
        raise
    else:
        if runner == 0:
            be_runner(begin)
        return ready, runner
    finally:
        os.close(begin)


def tend(runner: int, counter: int, timeout: float) -> dict[str, object]:
    """Wait for the job, end its tree, and tell how it went."""
    kills, start = oom_kills(counter), time.monotonic()
    status = await_child(runner, start + timeout)
    ended = time.monotonic()
    killed = end_tree()
    code = 128 + signal.SIGKILL if status is None else os.waitstatus_to_exitcode(status)
    return {
        "exit_code": code if code >= 0 else 128 - code,
        "timed_out": status is None,
        "duration_ms": round((ended - start) * 1000),
        "killed_children": len(killed - {runner}),
        "out_of_memory": code != 0 and oom_kills(counter) > kills,
    }


def no_process(error: OSError) -> dict[str, object]:
    return {"exit_code": 126, "launch_error": f"no process can be started: {error.strerror}"}


def take_request() -> tuple[bytes, list[int]]:
    """The next request and its three pipes, from the pump; nothing when it hung up."""
    with socket.socket(fileno=os.dup(PUMP_FD)) as pump:
        size, pipes, _, _ = socket.recv_fds(pump, 4, 3, socket.MSG_CMSG_CLOEXEC)
        return b"".join(read_exactly(PUMP_FD, int.from_bytes(size, "big"))), list(pipes)


def be_runner(begin: int) -> NoReturn:
    """Wait for a job, say that it begins, become the sandbox user and do it."""
    code = 1
    try:
        os.setsid()
        with open("/proc/self/oom_score_adj", "wb", buffering=0) as score:  # noqa: PTH123
            score.write(b"500")  # so that the kernel takes the job, not the shepherd
        data, pipes = take_request()
        if not data:
            os._exit(0)
        request = json.loads(data)
        timeout = request["timeout_s"]
        os.write(begin, START.pack(math.inf if timeout is None else timeout))
        for target, fd in enumerate(pipes):
            os.dup2(fd, target)
        os.setgroups([])
        os.setresgid(AGENT, AGENT, AGENT)
        os.setresuid(AGENT, AGENT, AGENT)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        TASKS[request["task"]](request)
        code = 0
    except OSError as error:
        report(errno=errno.errorcode.get(error.errno or 0, "?"), error=error.strerror)
    except ValueError as error:
        report(errno="EINVAL", error=str(error))
    finally:
        os._exit(code)


def await_child(child: int, deadline: float) -> int | None:
    """The child's wait status, or None when the time is up or the job is to stop."""
    while True:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == child:
            return status
        if pid:
            continue
        left = min(max(0.0, deadline - time.monotonic()), LONG_S)
        woken = signal.sigtimedwait(WAKERS, left)
        if woken is None or woken.si_signo == signal.SIGTERM:
            return None


def oom_counter() -> int:
    """An open file that counts the kernel's kills for memory here; -1 where nobody counts."""
    for path in OOM_COUNTERS:
        with suppress(OSError):
            return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    return -1


def oom_kills(counter: int) -> int:
    if counter < 0:
        return 0
    words = os.pread(counter, CHUNK, 0).split()
    return int(words[words.index(b"oom_kill") + 1]) if b"oom_kill" in words else 0


def prctl(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0):
        raise OSError(ctypes.get_errno(), f"prctl {option}")
