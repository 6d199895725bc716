"""The process that others of the tests are forked from: it has imported what they import.

    with forking(at_once=False) as name:
        fork_from(name)("app", "runs", "list", cwd=…, env=…, stdout=file, stderr=file).wait(60)

is `python -m app runs list`. Each has its own arguments, folder, environment, streams and session,
and ends as any other; only the seconds in which it would import are not taken again. What Harness
keeps is begun so too, by the tests and by what is forked: Prefect's server, workers and what their
runs are forked from, gateways.

All workers of pytest have one of these. It imports when it is first asked, or at once.
"""

import fcntl
import gc
import json
import os
import random
import runpy
import select
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory

from flows.host import worker_forks
from flows.host.fork_server import fast_exit
from flows.plans import start as plan_start
from flows.services import daemon
from memory.vectors import vector_index
from tests.support.forks import NUMBER, Fork, Forked, fork_from

_NOT_PREFECTS = ("flows.host.gateway_process", "memory.vectors.chroma")

_ROOT = Path(__file__).parents[2]
_ASKED_AT_MOST = 1 << 17
_GIVEN_AT_MOST = 8
_ASIDE = 512
"""Where no descriptor is that was asked for by its number."""
_NEEDED = (
    "alembic.command", "app.cli.main", "app.terminal.live", "app.terminal.tree",
    "app.web.serve", "chromadb.api.client", "chromadb.api.rust",
    "flows.execution.replay", "flows.execution.wiring",
    "flows.host.engine_process", "flows.host.fork_server",
    "flows.host.server_process", "flows.orchestration.cancel",
    "flows.orchestration.compile", "flows.orchestration.start", "flows.plans.start",
    "flows.runs.runs",
    "prefect.cli.deploy._core", "prefect.cli.worker", "prefect.server.api.server",
    "prefect.workers.process", "prefect_redis",
    "providers.models", "providers.scripted",
    "uvicorn.lifespan.on", "uvicorn.loops.auto", "uvicorn.protocols.http.auto",
    "uvicorn.protocols.websockets.auto",
    *_NOT_PREFECTS,
)  # fmt: skip

STARTING = (daemon, plan_start)
"""The modules that start a process which outlives them."""

START_DETACHED = daemon.start_detached
"""The function of Harness, before any module gets the one of the tests."""


@contextmanager
def forking(*, at_once: bool) -> Iterator[str]:
    """Gives the name of a process that forks for whoever knows it, until the block ends."""
    name = f"harness-tests-{token_hex(8)}"
    with TemporaryDirectory() as home, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as door:
        door.bind(f"\0{name}")
        door.listen()
        env = {k: v for k, v in os.environ.items() if not k.startswith("PREFECT_")}
        env |= {
            "OPENBLAS_NUM_THREADS": "1",  # who has threads is not forked
            "PREFECT_HOME": home,
            "PREFECT_INTERNAL_LOGGING_LEVEL": "CRITICAL",
            # Read once, at the import; else schedules are looked at once a minute.
            "PREFECT_SERVER_SERVICES_SCHEDULER_LOOP_SECONDS": "2",
        }
        argv = (sys.executable, "-m", "tests.support.forked", str(door.fileno()), str(at_once))
        with subprocess.Popen(
            argv, cwd=_ROOT, env=env, stdin=subprocess.PIPE, pass_fds=[door.fileno()]
        ) as server:
            yield name
            server.terminate()


def start_forked(
    fork: Fork, argv: Sequence[str], *, cwd: Path, log: Path, env: Mapping[str, str] | None = None
) -> int:
    """As `flows.services.daemon.start_detached`, which does all but modules of this Python."""
    if argv[0] != sys.executable or "-m" not in argv:
        return START_DETACHED(argv, cwd=cwd, log=log, env=env)
    at = argv.index("-m")
    module, *args = argv[at + 1 :]
    given = os.environ if env is None else env
    with log.open("ab") as said:
        streams = {"stdout": said, "stderr": said}
        safe_path = "-P" in argv[:at]
        return fork(module, *args, cwd=cwd, env=given, safe_path=safe_path, **streams).let_go()


def popen_forked(fork: Fork, argv: Sequence[str], *, stdin: int, env: Mapping[str, str]) -> Forked:
    """As `subprocess.Popen` of a module of this Python with a pipe to its `stdin`."""
    theirs, ours = os.pipe()
    module, *args = argv[argv.index("-m") + 1 :]
    begun = fork(
        module, *args, cwd=Path.cwd(), env=env, stdout=1, stderr=2, safe_path=True,
        given={0: theirs},
    )  # fmt: skip
    os.close(theirs)
    begun.stdin = os.fdopen(ours, "wb")
    return begun


def run_forked(
    fork: Fork, argv: Sequence[str], *, check: bool, capture_output: bool, timeout: float
) -> "subprocess.CompletedProcess[bytes]":
    """As `subprocess.run` of a module of this Python, where only how it ends matters."""
    assert capture_output
    assert not check
    module, *args = argv[argv.index("-m") + 1 :]
    with Path(os.devnull).open("wb") as nowhere:
        streams = {"stdout": nowhere, "stderr": nowhere}
        begun = fork(module, *args, cwd=Path.cwd(), env=os.environ, safe_path=True, **streams)
    try:
        return subprocess.CompletedProcess(argv, begun.wait(timeout))
    except TimeoutError as error:
        begun.kill()
        raise subprocess.TimeoutExpired(argv, timeout) from error


def start_all_by(fork: Fork) -> None:
    """Have this process begin by forks what else would be Pythons of their own."""
    for room in STARTING:
        vars(room).update(start_detached=partial(start_forked, fork))
    vars(vector_index).update(run=partial(run_forked, fork))


def _serve(listener: socket.socket) -> str:
    """Fork for each who asks; in the child, become what was asked for, and tell which module."""
    begun: dict[int, tuple[int, socket.socket]] = {}
    while True:
        ready, _, _ = select.select([listener, sys.stdin, *begun], [], [])
        if sys.stdin in ready:  # whoever tests is gone
            raise SystemExit
        for ended in begun.keys() & ready:
            _tell_end(ended, *begun.pop(ended))
        if listener in ready:
            told, _ = listener.accept()
            pid = os.fork()
            if pid == 0:
                break
            with suppress(BrokenPipeError):
                told.send(NUMBER.pack(pid))
            begun[os.pidfd_open(pid)] = pid, told
    for descriptor, (_, other) in begun.items():
        os.close(descriptor)
        other.close()
    name = listener.getsockname().decode().lstrip("\0")
    listener.close()
    with told:
        asked, given, _, _ = socket.recv_fds(told, _ASKED_AT_MOST, _GIVEN_AT_MOST)
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDONLY), sys.stdin.fileno())
    fork = fork_from(name)
    start_all_by(fork)
    vars(worker_forks).update(Popen=partial(popen_forked, fork))
    return _become(given, **json.loads(asked))


def _tell_end(ended: int, pid: int, told: socket.socket) -> None:
    os.close(ended)
    _, status = os.waitpid(pid, 0)
    with told, suppress(BrokenPipeError):
        told.send(NUMBER.pack(status))


def _become(
    given: Sequence[int],
    *,
    numbers: Sequence[int],
    module: str,
    args: list[str],
    cwd: str,
    env: dict[str, str],
    safe_path: bool,
) -> str:
    from prefect.context import refresh_global_settings_context

    aside = [fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _ASIDE) for descriptor in given]
    for descriptor in given:
        os.close(descriptor)
    for descriptor, number in zip(aside, numbers, strict=True):
        os.dup2(descriptor, number)
        os.close(descriptor)
    # As a new process has them: they were made for what was there before, such as a file.
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    sys.path[:1], sys.argv[1:] = (str(_ROOT),) if safe_path else (cwd, str(_ROOT)), args
    random.seed()
    if module not in _NOT_PREFECTS:
        refresh_global_settings_context()
    if not hasattr(sys.modules.get(module), "__path__"):
        sys.modules.pop(module, None)  # what is there already, runpy warns of
    return module


def main() -> None:
    """Fork until told to end; in each child, do what was asked."""
    listener = socket.socket(fileno=int(sys.argv[1]))
    at_once = sys.argv[2] == str(True)
    if not at_once and sys.stdin in select.select([listener, sys.stdin], [], [])[0]:
        return
    for name in _NEEDED:
        import_module(name)
    sys.modules["providers.models"].litellm()
    sys.modules["flows.host.engine_process"].get_ready()
    assert len(list(Path("/proc/self/task").iterdir())) == 1
    gc.collect()
    gc.freeze()
    module = _serve(listener)
    with fast_exit():
        runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
