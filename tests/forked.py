"""Processes of ours that are forked from one that has imported what they import.

    with forking(home) as fork:
        fork("app", "runs", "list", cwd=…, env=…, stdout=file, stderr=file).wait(60)

is `python -m app runs list`. Each has its own arguments, folder, environment, streams and session,
and ends as any other; only the seconds in which it would import are not taken again. Gateways are
begun so too, by the tests and by what is forked.
"""

import gc
import json
import os
import random
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from secrets import token_hex
from typing import IO, Self

from flows import detached, kept
from sandbox.process import process_label

GATEWAY = "flows.gateway_process"

_ROOT = Path(__file__).parents[1]
_ASKED_AT_MOST = 1 << 17
_NUMBER = struct.Struct("i")
_NEEDED = (
    "app.cli", "app.live", "app.tree", "flows.cancel", "flows.compile", "flows.engine_process",
    "flows.replay", "flows.resume", "flows.runs", "flows.start", "flows.wiring", GATEWAY,
    "providers.scripted",
)  # fmt: skip

Fork = Callable[..., "Forked"]


class Forked:
    """What there is of `subprocess.Popen`, for a process that is no child of ours."""

    def __init__(self, told: socket.socket) -> None:
        self._told = told
        self._status: int | None = None
        self.pid = _number(told)
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
    (number,) = _NUMBER.unpack(told.recv(_NUMBER.size))
    return int(number)


@contextmanager
def forking(home: Path) -> Iterator[Fork]:
    """Gives what begins `python -m`; `home` is where Prefect may look when it is imported."""
    address = f"\0harness-tests-{token_hex(8)}"
    env = {**os.environ, "PREFECT_HOME": str(home), "PREFECT_INTERNAL_LOGGING_LEVEL": "CRITICAL"}
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(address)
        listener.listen()
        number = listener.fileno()
        argv = (sys.executable, "-m", "tests.forked", str(number))
        server = subprocess.Popen(
            argv, cwd=_ROOT, env=env, stdin=subprocess.PIPE, pass_fds=[number]
        )
    with server:
        yield partial(_fork, address)
        server.terminate()


def _fork(
    address: str,
    module: str,
    *args: str,
    cwd: Path,
    env: Mapping[str, str],
    stdout: IO[bytes] | int,
    stderr: IO[bytes] | int,
) -> Forked:
    server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    server.connect(address)
    streams = [one if isinstance(one, int) else one.fileno() for one in (stdout, stderr)]
    asked = {"module": module, "args": args, "cwd": str(cwd), "env": dict(env)}
    socket.send_fds(server, [json.dumps(asked).encode()], streams)
    return Forked(server)


def start_forked(
    fork: Fork, argv: Sequence[str], *, cwd: Path, log: Path, env: Mapping[str, str] | None = None
) -> int:
    """As `flows.detached.start_detached`, which does all but gateways."""
    if GATEWAY not in argv:
        return detached.start_detached(argv, cwd=cwd, log=log, env=env)
    module, *args = argv[argv.index(GATEWAY) :]
    with log.open("ab") as said:
        given = os.environ if env is None else env
        return fork(module, *args, cwd=cwd, env=given, stdout=said, stderr=said).let_go()


def _serve(listener: socket.socket) -> str:
    """Fork for each who asks; in the child, become what was asked for, and tell which module."""
    while True:
        ready, _, _ = select.select([listener, sys.stdin], [], [])
        if sys.stdin in ready:  # whoever tests is gone
            raise SystemExit
        told, _ = listener.accept()
        with told:
            if os.fork() == 0:
                address = listener.getsockname().decode()
                listener.close()
                asked, streams, _, _ = socket.recv_fds(told, _ASKED_AT_MOST, 2)
                pid = os.fork()
                if pid == 0:
                    break
                with suppress(BrokenPipeError):
                    told.send(_NUMBER.pack(pid))
                    _, status = os.waitpid(pid, 0)
                    told.send(_NUMBER.pack(status))
                os._exit(0)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDONLY), sys.stdin.fileno())
    for stream, number in zip(streams, (1, 2), strict=True):
        os.dup2(stream, number)
        os.close(stream)
    vars(kept).update(start_detached=partial(start_forked, partial(_fork, address)))
    return _become(**json.loads(asked))


def _become(module: str, args: list[str], cwd: str, env: dict[str, str]) -> str:
    from prefect.context import refresh_global_settings_context

    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    sys.path[:1], sys.argv[1:] = (cwd, str(_ROOT)), args
    random.seed()
    if module != GATEWAY:
        refresh_global_settings_context()
    return module


def main() -> None:
    """Import, and fork until told to end; in each child, do what was asked."""
    for name in _NEEDED:
        import_module(name)
    sys.modules["flows.engine_process"].get_ready()
    del sys.modules[GATEWAY]  # what is there already, runpy warns of
    assert len(list(Path("/proc/self/task").iterdir())) == 1
    gc.collect()
    gc.freeze()
    listener = socket.socket(fileno=int(sys.argv[1]))
    runpy.run_module(_serve(listener), run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
