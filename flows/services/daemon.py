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
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import monotonic, sleep
from typing import NamedTuple
from urllib.parse import urlsplit

from contracts.errors import Unavailable
from contracts.whole_file import write_whole
from flows.services.detached import start_detached
from flows.services.ports import bound
from sandbox.process import process_label

STOP_TIMEOUT_S = 15.0
"""After SIGTERM, and once more after SIGKILL."""

_STARTS = 3

_PATIENCE_S = 10.0
"""How long a living process may fail its health check before it is replaced."""


_LISTEN = "0A"
_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_NEEDED = (_TABLES[0], Path("/proc/thread-self/children"))


class Launch(NamedTuple):
    """How to start it. `url` is where it will answer; empty for what nobody calls."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    url: str = ""


@dataclass(frozen=True, kw_only=True)
class Running:
    """A kept process. `process` tells it from a later one with the same pid."""

    url: str
    pid: int
    process: str
    version: str = ""
    answered: bool = False
    """Once it has, its port is its own: until then somebody else may answer there."""

    @property
    def alive(self) -> bool:
        return self.process == process_label(self.pid) and not _never_was(self.process)


@dataclass(frozen=True, kw_only=True)
class Kept:
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
    start_timeout_s: float = 120.0
    unavailable: type[Unavailable] = Unavailable
    """Raised when it does not start."""

    @property
    def log(self) -> Path:
        """What it printed."""
        return self.folder / f"{self.name}.log"

    @property
    def state(self) -> Path:
        """Who it is."""
        return self.folder / f"{self.name}.json"


def up(kept: Kept) -> Running:
    """The running process, started now if need be; two callers start one.

    Raises:
        Unavailable: `kept.unavailable`, when it did not answer in time; names its log.
    """
    running = status(kept)
    if running is not None and running.answered and _as_wanted(kept, running):
        return running
    from filelock import FileLock  # 50 ms that the usual case need not pay

    for folder in (kept.folder.parent, kept.folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with FileLock(kept.folder / f"{kept.name}.lock"):
        running = status(kept)
        if running is not None and _usable(kept, running):
            return _noted(kept, replace(running, answered=True))
        if running is not None:
            _replace(kept, running)
        return _noted(kept, replace(_start(kept), answered=True))


def status(kept: Kept) -> Running | None:
    """What runs, healthy or not; a state file that cannot be read is nothing that runs."""
    return _living(kept.state)


def down(kept: Kept) -> bool:
    """Stop it, and those before it that are still in use; False when none was running."""
    return stop_recorded(kept.state, *kept.folder.glob(f"{kept.name}-*.json"))


def records(home: Path) -> tuple[Path, ...]:
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


def retired(folder: Path, name: str, pid: int) -> Path:
    """The file that tells the process `pid` that it has a successor."""
    return folder / f"{name}-{pid}.json"


def _living(state: Path) -> Running | None:
    try:
        running = Running(**json.loads(state.read_text()))
    except (FileNotFoundError, ValueError, TypeError):
        return None
    return running if running.alive else None


def free_port(wanted: int = 0, host: str = "127.0.0.1") -> int:
    """The wanted port of `host` if nobody has it, else any free one.

    Raises:
        Unavailable: there is none, or `host` is none of this machine.
    """
    try:
        with suppress(OSError), bound(host, wanted) as probe:
            return int(probe.getsockname()[1])
        with bound(host, 0) as probe:
            return int(probe.getsockname()[1])
    except OSError as error:
        raise Unavailable(f"nothing can listen on {host!r}: {error.strerror}") from error


def _as_wanted(kept: Kept, running: Running) -> bool:
    return running.version == kept.version() and kept.healthy(running.url)


def _noted(kept: Kept, running: Running) -> Running:
    write_whole(kept.state, json.dumps(asdict(running)), private=True)
    return running


def _usable(kept: Kept, running: Running) -> bool:
    if not _wait(kept, running, _PATIENCE_S):
        return False
    return running.version == kept.version() or not (kept.drains or kept.idle(running.url))


def _replace(kept: Kept, running: Running) -> None:
    """Make room for a successor."""
    if kept.drains and kept.healthy(running.url) and not kept.idle(running.url):
        kept.state.rename(retired(kept.folder, kept.name, running.pid))
    else:
        _stop(running)


def _start(kept: Kept) -> Running:
    """What ends early is started again: somebody may have taken its free port before it did."""
    running = _launched(kept)
    for _ in range(_STARTS - 1):
        if running.alive:
            break
        running = _launched(kept)
    if running.alive and _answers(kept, running):
        return running
    why = f"did not answer within {kept.start_timeout_s:g} s" if running.alive else "ended at once"
    _stop(running)
    at = f" at {running.url}" if running.url else ""
    raise kept.unavailable(f"{kept.title}{at} {why}: see {kept.log}")


def _launched(kept: Kept) -> Running:
    """Started, and waited for until it answers, has ended, or has had its time."""
    launch = kept.launch()
    pid = start_detached(launch.argv, cwd=kept.folder, log=kept.log, env=launch.env)
    begun = Running(url=launch.url, pid=pid, process=process_label(pid), version=kept.version())
    running = _noted(kept, begun)
    _wait(kept, running, kept.start_timeout_s)
    return running


def _wait(kept: Kept, running: Running, timeout_s: float) -> bool:
    give_up = monotonic() + timeout_s
    while running.alive and monotonic() < give_up:
        if _answers(kept, running):
            return True
        sleep(0.1)
    return False


def _answers(kept: Kept, running: Running) -> bool:
    """Whether it is well, and no other process answers in its place."""
    return kept.healthy(running.url) and listens(running.pid, running.url)


def _stop(running: Running) -> None:
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


def listens(pid: int, url: str) -> bool:
    """Return True if `pid`, or a descendant of it, listens at the port of this URL.

    Also True if this cannot be known: the URL names no port, or there is no Linux `/proc`.
    """
    port = urlsplit(url).port
    if port is None or not all(needed.exists() for needed in _NEEDED):
        return True
    theirs = {f"socket:[{inode}]" for inode in _listening_at(port)}
    return any(not theirs.isdisjoint(_open_files(one)) for one in _family(pid))


def _listening_at(port: int) -> Iterator[str]:
    for table in _TABLES:
        with suppress(OSError):  # no IPv6 here
            for line in table.read_text().splitlines()[1:]:
                _, local, _, state, *_, inode = line.split()[:10]
                if state == _LISTEN and int(local.rpartition(":")[2], 16) == port:
                    yield inode


def _open_files(pid: int) -> Iterator[str]:
    with suppress(OSError):  # it has ended
        for one in Path("/proc", str(pid), "fd").iterdir():
            with suppress(OSError):
                yield str(one.readlink())


def _family(pid: int) -> Iterator[int]:
    yield pid
    with suppress(OSError):
        for task in Path("/proc", str(pid), "task").iterdir():
            for child in (task / "children").read_text().split():
                yield from _family(int(child))
