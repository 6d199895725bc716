"""Daemons: processes that Harness keeps running, one of each kind per `HARNESS_HOME`.

    daemon = Daemon(name="worker", title="the worker", folder=home / "prefect", launch=…, healthy=…)
    up(daemon).url        start it if it does not run, and wait until it answers
    status(daemon)        the running process, or None
    down(daemon)          stop it with all processes it started

The folder holds `<name>.json` (pid and URL, mode 0600), `<name>.lock` and `<name>.log`, and
`<name>-<pid>.json` for each process that was replaced but is still in use. A daemon outlives the
process that started it.
"""

import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import monotonic, sleep
from typing import NamedTuple

from contracts.errors import Unavailable
from contracts.files import write_atomically
from flows.config.environment import environment
from flows.services.detached import start_detached
from flows.services.ports import owns_port
from nodes.text import make_redactor
from sandbox.process_label import process_label

STOP_TIMEOUT_S = 15.0
"""After SIGTERM, and once more after SIGKILL."""

_ATTEMPTS = 3
_REPORT_EVERY_S = 30.0
_LOG_TAIL = 1000
"""Bytes of a log that an error shows."""


class Launch(NamedTuple):
    """How to start a daemon, and the URL where it will answer; empty if it has none."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    url: str = ""


@dataclass(frozen=True, kw_only=True)
class RunningDaemon:
    """A running process of a daemon. `process` distinguishes it from a later one with its pid."""

    url: str
    pid: int
    process: str
    version: str = ""
    answered: bool = False
    """The process has answered at `url`. Before that, another process may own the port."""

    @property
    def alive(self) -> bool:
        has_label = not self.process.endswith(":-")  # else it ended before it could be labelled
        return has_label and self.process == process_label(self.pid)


@dataclass(frozen=True, kw_only=True)
class Daemon:
    """Command, health check and version of a daemon, which decide whether it is replaced."""

    name: str
    """Base name of its files in `folder`."""
    title: str
    """For messages, such as "the local Prefect server"."""
    folder: Path
    launch: Callable[[], Launch]
    """Called only when a process must be started, so it may choose a free port."""
    healthy: Callable[[str], bool]
    """Return True if the process answers at this URL. Called only while the process is alive."""
    version: Callable[[], str] = lambda: ""
    """Called by `up` only: an idle process of another version is replaced."""
    idle: Callable[[str], bool] = lambda _: True
    """Return True if the process at this URL can be stopped without harm."""
    drains: bool = False
    """A busy process of another version gets a successor beside it. It must end by itself once
    its `successor_marker` exists and it is not used any more."""
    start_timeout_s: float = 300.0
    """Give up a process that has not answered by then. Prefect's server makes its database at
    the first start: 13 s on an idle machine of two cores, minutes on an overloaded one."""
    unavailable: type[Unavailable] = Unavailable
    """The error to raise when it does not start."""

    @property
    def log(self) -> Path:
        """Its stdout and stderr."""
        return self.folder / f"{self.name}.log"

    @property
    def state_file(self) -> Path:
        """Its `RunningDaemon` as JSON."""
        return self.folder / f"{self.name}.json"


def up(daemon: Daemon) -> RunningDaemon:
    """Return the running process; start it if needed. Two concurrent callers start one.

    Raises:
        Unavailable: `daemon.unavailable`, when it ended or did not answer; names its log.
    """
    running = status(daemon)
    if running is not None and running.answered and _is_current(daemon, running):
        return running
    from filelock import FileLock

    for folder in (daemon.folder.parent, daemon.folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with FileLock(daemon.folder / f"{daemon.name}.lock"):
        running = status(daemon)
        if running is None or not _is_usable(daemon, running):
            if running is not None:
                _make_room(daemon, running)
            running = _start(daemon)
        return _save(daemon, replace(running, answered=True))


def status(daemon: Daemon) -> RunningDaemon | None:
    """Return the running process, healthy or not; None if there is none."""
    return _running(daemon.state_file)


def down(daemon: Daemon) -> bool:
    """Stop it and its replaced processes that are still in use; False when none was running."""
    return stop_recorded(daemon.state_file, *daemon.folder.glob(f"{daemon.name}-*.json"))


def state_files(home: Path) -> tuple[Path, ...]:
    """Return the state files of all running daemons of `home`, of other versions as well."""
    files = (path for path in sorted(home.glob("*/*.json")) if path.is_file())
    return tuple(path for path in files if _running(path))


def stop_recorded(*state_files: Path) -> bool:
    """Stop the daemons of these state files and remove the files; False if none was running."""
    found = [running for running in map(_running, state_files) if running is not None]
    for running in found:
        _stop(running)
    for path in state_files:
        path.unlink(missing_ok=True)
    return bool(found)


def successor_marker(folder: Path, name: str, pid: int) -> Path:
    """The file whose existence tells the process `pid` that it has a successor."""
    return folder / f"{name}-{pid}.json"


def _running(state_file: Path) -> RunningDaemon | None:
    try:
        running = RunningDaemon(**json.loads(state_file.read_text()))
    except (FileNotFoundError, ValueError, TypeError):  # none, or not a state file
        return None
    return running if running.alive else None


def _save(daemon: Daemon, running: RunningDaemon) -> RunningDaemon:
    write_atomically(daemon.state_file, json.dumps(asdict(running)), private=True)
    return running


def _is_current(daemon: Daemon, running: RunningDaemon) -> bool:
    return running.version == daemon.version() and daemon.healthy(running.url)


def _is_usable(daemon: Daemon, running: RunningDaemon) -> bool:
    if not _wait_for_answer(daemon, running):
        return False
    return running.version == daemon.version() or not (daemon.drains or daemon.idle(running.url))


def _make_room(daemon: Daemon, running: RunningDaemon) -> None:
    if daemon.drains and daemon.healthy(running.url) and not daemon.idle(running.url):
        daemon.state_file.rename(successor_marker(daemon.folder, daemon.name, running.pid))
    else:
        _stop(running)


def _start(daemon: Daemon) -> RunningDaemon:
    """Start it; a process that ends early is started again, as its port may have been taken."""
    for _ in range(_ATTEMPTS):
        log_size = _size(daemon.log)
        launch = daemon.launch()
        pid = start_detached(launch.argv, cwd=daemon.folder, log=daemon.log, env=launch.env)
        running = RunningDaemon(
            url=launch.url, pid=pid, process=process_label(pid), version=daemon.version()
        )
        if _wait_for_answer(daemon, _save(daemon, running)):
            return running
        if running.alive:
            break
    if running.alive:
        problem = f"did not answer within {daemon.start_timeout_s:g} s"
    else:
        problem = "ended while it was starting"
    _stop(running)
    at = f" at {running.url}" if running.url else ""
    last = _log_tail(daemon.log, log_size)
    raise daemon.unavailable(f"{daemon.title}{at} {problem}: see {daemon.log}. {last}")


def _wait_for_answer(daemon: Daemon, running: RunningDaemon) -> bool:
    """Wait while it lives, up to `start_timeout_s`; return True once it answers."""
    began = monotonic()
    next_report = began + _REPORT_EVERY_S
    while running.alive and (now := monotonic()) < began + daemon.start_timeout_s:
        if daemon.healthy(running.url) and owns_port(running.pid, running.url):
            return True
        if now >= next_report:
            next_report += _REPORT_EVERY_S
            sys.stderr.write(f"{daemon.title} is still starting ({now - began:.0f} s)\n")
            sys.stderr.flush()
        sleep(0.1)
    return False


def _size(log: Path) -> int:
    return log.stat().st_size if log.exists() else 0


def _log_tail(log: Path, after: int) -> str:
    """Return the last lines printed since byte `after`, without secrets of the environment."""
    with log.open("rb") as file:
        file.seek(max(after, _size(log) - _LOG_TAIL))
        text = make_redactor(environment())(file.read().decode("utf-8", "replace"))
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return f"It printed last: {' | '.join(lines[-3:])}" if lines else "It printed nothing."


def _stop(running: RunningDaemon) -> None:
    for sign in (signal.SIGTERM, signal.SIGKILL):
        deadline = monotonic() + STOP_TIMEOUT_S
        if running.alive:
            with suppress(ProcessLookupError):
                os.killpg(os.getpgid(running.pid), sign)
        while running.alive and monotonic() < deadline:
            sleep(0.05)
