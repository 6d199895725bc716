"""Processes that Harness keeps alive: one of each per `HARNESS_HOME`, outliving who started it.

    KEPT = Kept(name="worker", title="the worker", folder=home / "worker", launch=…, healthy=…)
    up(KEPT).url        the living one is taken, else one is started and waited for
    status(KEPT)        what runs, or None
    down(KEPT)          stopped, with all that it started

The folder holds `<name>.json` (who it is, for this user only), `<name>.lock` and `<name>.log`, and
`<name>-<pid>.json` for each that has a successor and is still in use.
"""

import json
import os
import signal
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
from flows.services.listening import owns_port
from flows.services.ports import listen_on
from flows.services.waiting import Waiting
from nodes.text import make_redactor
from sandbox.process_label import process_label

STOP_TIMEOUT_S = 15.0
"""After SIGTERM, and once more after SIGKILL."""

_STARTS = 3

_MOST_SHOWN = 1000
"""Bytes of a log that an error shows."""


class Launch(NamedTuple):
    """How to start it. `url` is where it will answer; empty for what nobody calls."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    url: str = ""


@dataclass(frozen=True, kw_only=True)
class RunningDaemon:
    """A kept process. `process` tells it from a later one with the same pid."""

    url: str
    pid: int
    process: str
    version: str = ""
    has_answered: bool = False
    """Once it has, its port is its own: until then somebody else may answer there."""

    @property
    def alive(self) -> bool:
        return self.process == process_label(self.pid) and not _never_was(self.process)


@dataclass(frozen=True, kw_only=True)
class Daemon:
    """What is kept, and how."""

    name: str
    """Of its files in `folder`."""
    title: str
    """What people call it, such as "the local Prefect server"."""
    folder: Path
    launch: Callable[[], Launch]
    """Asked only when one must be started: it may choose a free port."""
    healthy: Callable[[str], bool]
    """Whether it answers at this URL. Only a living process is asked about."""
    version: Callable[[], str] = lambda: ""
    """Asked by `up` only: a living process of another version is replaced when it is idle."""
    idle: Callable[[str], bool] = lambda _: True
    """Whether the one at this URL may be stopped without harm."""
    drains: bool = False
    """One of another version that is in use is no hindrance: it gets a successor beside it, and
    ends by itself, when it sees that its `retired` file is there and nobody uses it any more."""
    stuck_after_s: float = 60.0
    """A process that does not answer is given up when it has done nothing for this long. While it
    uses the processor, or waits for its turn on a busy machine, there is no limit."""
    unavailable: type[Unavailable] = Unavailable
    """Raised when it does not start."""

    @property
    def log(self) -> Path:
        """What it printed."""
        return self.folder / f"{self.name}.log"

    @property
    def state_file(self) -> Path:
        """Who it is."""
        return self.folder / f"{self.name}.json"


def up(daemon: Daemon) -> RunningDaemon:
    """The running process, started now if need be; two callers start one.

    Raises:
        Unavailable: `kept.unavailable`, when it ended or got stuck; names its log.
    """
    running = status(daemon)
    if running is not None and running.has_answered and _as_wanted(daemon, running):
        return running
    from filelock import FileLock  # 50 ms that the usual case need not pay

    for folder in (daemon.folder.parent, daemon.folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with FileLock(daemon.folder / f"{daemon.name}.lock"):
        running = status(daemon)
        if running is not None and _usable(daemon, running):
            return _noted(daemon, replace(running, has_answered=True))
        if running is not None:
            _replace(daemon, running)
        return _noted(daemon, replace(_start(daemon), has_answered=True))


def status(daemon: Daemon) -> RunningDaemon | None:
    """What runs, healthy or not; a state file that cannot be read is nothing that runs."""
    return _living(daemon.state_file)


def down(daemon: Daemon) -> bool:
    """Stop it, and those before it that are still in use; False when none was running."""
    return stop_recorded(daemon.state_file, *daemon.folder.glob(f"{daemon.name}-*.json"))


def state_files(home: Path) -> tuple[Path, ...]:
    """State files of all daemons that run for `home`, also those that another version started."""
    return tuple(path for path in sorted(home.glob("*/*.json")) if path.is_file() and _living(path))


def stop_recorded(*states: Path) -> bool:
    """Stop the daemons of these state files, and remove the files; False if none was running."""
    running = [living for living in map(_living, states) if living is not None]
    for one in running:
        _stop(one)
    for state in states:
        state.unlink(missing_ok=True)
    return bool(running)


def successor_marker(folder: Path, name: str, pid: int) -> Path:
    """The file that tells the process `pid` that it has a successor."""
    return folder / f"{name}-{pid}.json"


def _living(state: Path) -> RunningDaemon | None:
    try:
        running = RunningDaemon(**json.loads(state.read_text()))
    except (FileNotFoundError, ValueError, TypeError):
        return None
    return running if running.alive else None


def free_port(wanted: int = 0, host: str = "127.0.0.1") -> int:
    """The wanted port of `host` if nobody has it, else any free one.

    Raises:
        Unavailable: there is none, or `host` is none of this machine.
    """
    try:
        with suppress(OSError), listen_on(host, wanted) as probe:
            return int(probe.getsockname()[1])
        with listen_on(host, 0) as probe:
            return int(probe.getsockname()[1])
    except OSError as error:
        raise Unavailable(f"nothing can listen on {host!r}: {error.strerror}") from error


def _as_wanted(kept: Daemon, running: RunningDaemon) -> bool:
    return running.version == kept.version() and kept.healthy(running.url)


def _noted(kept: Daemon, running: RunningDaemon) -> RunningDaemon:
    write_atomically(kept.state_file, json.dumps(asdict(running)), private=True)
    return running


def _usable(kept: Daemon, running: RunningDaemon) -> bool:
    if not _wait(kept, running):
        return False
    return running.version == kept.version() or not (kept.drains or kept.idle(running.url))


def _replace(kept: Daemon, running: RunningDaemon) -> None:
    """Make room for a successor."""
    if kept.drains and kept.healthy(running.url) and not kept.idle(running.url):
        kept.state_file.rename(successor_marker(kept.folder, kept.name, running.pid))
    else:
        _stop(running)


def _start(kept: Daemon) -> RunningDaemon:
    """What ends early is started again: somebody may have taken its free port before it did."""
    for _ in range(_STARTS):
        printed_before = _size(kept.log)
        running = _launched(kept)
        if running.alive:
            break
    if running.alive and _answers(kept, running):
        return running
    stuck = f"does not answer, and has done nothing for {kept.stuck_after_s:g} s"
    why = stuck if running.alive else "ended while it was starting"
    _stop(running)
    at = f" at {running.url}" if running.url else ""
    last = _last_lines(kept.log, printed_before)
    raise kept.unavailable(f"{kept.title}{at} {why}: see {kept.log}. {last}")


def _launched(kept: Daemon) -> RunningDaemon:
    """Started, and waited for until it answers, has ended, or is stuck."""
    launch = kept.launch()
    pid = start_detached(launch.argv, cwd=kept.folder, log=kept.log, env=launch.env)
    begun = RunningDaemon(
        url=launch.url, pid=pid, process=process_label(pid), version=kept.version()
    )
    running = _noted(kept, begun)
    _wait(kept, running)
    return running


def _wait(kept: Daemon, running: RunningDaemon) -> bool:
    """Whether it answers now; waits as long as it lives and makes progress."""
    waiting = waiting_for(kept, running)
    while running.alive and not waiting.stuck():
        if _answers(kept, running):
            return True
        sleep(0.1)
    return False


def waiting_for(kept: Daemon, running: RunningDaemon) -> Waiting:
    """A wait for this process, which tells people of it."""
    what = f"{kept.title} is still starting"
    return Waiting(running.pid, what, stuck_after_s=kept.stuck_after_s)


def _size(log: Path) -> int:
    return log.stat().st_size if log.exists() else 0


def _last_lines(log: Path, after: int) -> str:
    """What was printed last, without the secrets of this environment."""
    with log.open("rb") as file:
        file.seek(max(after, _size(log) - _MOST_SHOWN))
        text = make_redactor(environment())(file.read().decode("utf-8", "replace"))
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return f"It printed last: {' | '.join(lines[-3:])}" if lines else "It printed nothing."


def _answers(kept: Daemon, running: RunningDaemon) -> bool:
    """Whether it is well, and no other process answers in its place."""
    return kept.healthy(running.url) and owns_port(running.pid, running.url)


def _stop(running: RunningDaemon) -> None:
    for sign in (signal.SIGTERM, signal.SIGKILL):
        give_up = monotonic() + STOP_TIMEOUT_S
        if running.alive:
            with suppress(ProcessLookupError):
                os.killpg(os.getpgid(running.pid), sign)
        while running.alive and monotonic() < give_up:
            sleep(0.05)


def _never_was(process: str) -> bool:
    """True of the label of a process that was gone before anybody could look at it."""
    return process.endswith(":-")
