"""Ask the process of `tests.support.forked` for forks of itself.

`python tests/support/forks.py MODULE` does this as a command: it passes signals on and ends with
the exit code of the fork.
"""

import json
import os
import signal
import socket
import struct
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import IO, Self

from sandbox.process_label import process_label

FORKED_FROM = "TESTS_FORKED_FROM"
"""The variable with the name of the process that forks."""

NUMBER = struct.Struct("i")
"""A process, or how it ended, as `wait` tells it."""

Fork = Callable[..., "Forked"]


class Forked:
    """What there is of `subprocess.Popen`, for a process that is no child of ours."""

    def __init__(self, told: socket.socket) -> None:
        self._told = told
        self._status: int | None = None
        self.pid = _number(told)
        self.stdin: IO[bytes] | None = None
        self._process = process_label(self.pid)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.wait()

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, or minus the signal that ended it.

        Raises:
            TimeoutError: it has not ended.
        """
        if self._status is None:
            self._told.settimeout(timeout)
            self._status = _number(self._told)
            self._told.close()
        return os.waitstatus_to_exitcode(self._status)

    def poll(self) -> int | None:
        """As `wait`, or None when it has not ended."""
        with suppress(BlockingIOError):
            return self.wait(0)
        return None

    def send_signal(self, sign: signal.Signals) -> None:
        """Nothing happens when it is gone."""
        with suppress(ProcessLookupError):
            if self._status is None and process_label(self.pid) == self._process:
                os.kill(self.pid, sign)

    def kill(self) -> None:
        """At once."""
        self.send_signal(signal.SIGKILL)

    def let_go(self) -> int:
        """Its pid; it goes on, and nobody waits for it."""
        self._told.close()
        return self.pid


def _number(told: socket.socket) -> int:
    (number,) = NUMBER.unpack(told.recv(NUMBER.size))
    return int(number)


def fork_from(name: str) -> Fork:
    """Begins `python -m` as a fork of the process of this name.

    `given` is what it has open beside its streams: its number there, and the one here.
    """
    return partial(_fork, f"\0{name}")


def _fork(
    address: str,
    module: str,
    *args: str,
    cwd: Path,
    env: Mapping[str, str],
    stdout: IO[bytes] | int,
    stderr: IO[bytes] | int,
    safe_path: bool = False,
    given: Mapping[int, int] = MappingProxyType({}),
) -> Forked:
    server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    server.connect(address)
    out, err = (one if isinstance(one, int) else one.fileno() for one in (stdout, stderr))
    descriptors = {1: out, 2: err, **given}
    asked = {
        "module": module,
        "args": args,
        "cwd": str(cwd),
        "env": dict(env),
        "safe_path": safe_path,
        "numbers": list(descriptors),
    }
    socket.send_fds(server, [json.dumps(asked).encode()], list(descriptors.values()))
    return Forked(server)


def command(module: str) -> str:
    """A command that does what this module does, in a fork."""
    return f"{sys.executable} -P {Path(__file__)} {module}"


def main() -> None:
    """Have the module done, with this process's folder, environment and streams."""
    fork = fork_from(os.environ[FORKED_FROM])
    done = fork(*sys.argv[1:], cwd=Path.cwd(), env=os.environ, stdout=1, stderr=2, safe_path=True)
    for sign in (signal.SIGTERM, signal.SIGINT):
        signal.signal(sign, lambda sign, _: done.send_signal(signal.Signals(sign)))
    code = done.wait()
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)


if __name__ == "__main__":
    main()
