"""Daemons: processes that Harness keeps running, one of each kind per `HARNESS_HOME`.

    daemon = Daemon(name="worker", title="the worker", folder=home / "prefect", launch=…, healthy=…)
    daemon.up().url       start it if it does not run, and wait until it answers
    daemon.status()       the running process, or None
    daemon.down()         stop it with all processes it started

The folder holds `<name>.json` (pid and URL, mode 0600), `<name>.lock` and `<name>.log`, and
`<name>-<pid>.json` for each process that was replaced but is still in use. A daemon outlives the
process that started it.
"""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b, sha256
from importlib.metadata import version as installed_version
from pathlib import Path
from time import monotonic, sleep
from typing import NamedTuple

from pydantic import BaseModel, SecretStr

from contracts.errors import Unavailable
from contracts.files import write_atomically
from flows.config.environment import environment
from flows.services.local_http import owns_port
from nodes.text import make_redactor
from sandbox.process_label import process_label, processor_s

STOP_TIMEOUT_S = 15.0
"""After SIGTERM, and once more after SIGKILL."""

PROVIDER_VARIABLES = re.compile(
    r"(_API_KEY|_AUTH_TOKEN|_API_BASE|_BASE_URL|_API_VERSION|_PROXY)$"
    r"|^(AWS|AZURE|GOOGLE|VERTEX|VERTEXAI|OLLAMA|SSL_CERT)_",
    re.IGNORECASE,
)
"""Environment variables that decide which model providers can be reached, and how."""

_ROOT = Path(__file__).parents[2]
_PACKAGES = (
    "app", "blueprints", "contracts", "flows", "memory", "nodes", "policy", "providers", "sandbox"
)  # fmt: skip

_ATTEMPTS = 3
_REPORT_EVERY_S = 30.0
_WORKING = 0.01
"""Part of the time that a process uses the processor if it works; one that only waits uses less."""

_LOG_TAIL = 1000
"""Bytes of a log that an error shows."""

# A shell's `&` makes a process and its children ignore SIGINT, which is how Prefect's worker ends.
_START = """
import os, signal, subprocess, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
cwd, log, *argv = sys.argv[1:]
output = open(log, "ab")
started = subprocess.Popen(argv, cwd=cwd, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
print(started.pid, flush=True)
os._exit(0)
"""


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
        """True until the process has exited."""
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
    fixed_url: str = ""
    """Where it answers, if it cannot choose: what serves there already is used instead."""
    version: Callable[[], str] = lambda: ""
    """Called by `up` only: an idle process of another version is replaced."""
    idle: Callable[[str], bool] = lambda _: True
    """Return True if the process at this URL can be stopped without harm."""
    drains: bool = False
    """A busy process of another version gets a successor beside it. It must end by itself once
    its `successor_marker` exists and it is not used any more."""
    start_timeout_s: float = 300.0
    """Give up a process that has not answered by then, unless it has used the processor. The first
    Prefect server of an environment makes its database: 13 s on an idle machine of two cores,
    minutes on an overloaded one."""
    report_after_s: float = 30.0
    """Say after so many seconds, and then every 30, that it is still starting."""
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

    def up(self) -> RunningDaemon:
        """Return the running process; start it if needed. Two concurrent callers start one.

        Raises:
            Unavailable: `self.unavailable`, when it ended or did not answer; names its log.
        """
        running = self.status()
        if running is not None and running.answered and self._is_current(running):
            return running
        from filelock import FileLock

        for folder in (self.folder.parent, self.folder):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with FileLock(self.folder / f"{self.name}.lock"):
            running = self.status()
            if running is None or not self._is_usable(running):
                if running is not None:
                    self._make_room(running)
                running = self._start()
            return self._save(replace(running, answered=True))

    def status(self) -> RunningDaemon | None:
        """Return the running process, healthy or not; None if there is none."""
        return _running(self.state_file)

    def down(self) -> bool:
        """Stop it and its replaced processes that are still in use; False if none was running."""
        return stop_recorded(self.state_file, *self.folder.glob(f"{self.name}-*.json"))

    def _save(self, running: RunningDaemon) -> RunningDaemon:
        write_atomically(self.state_file, json.dumps(asdict(running)), private=True)
        return running

    def _is_current(self, running: RunningDaemon) -> bool:
        return running.version == self.version() and self.healthy(running.url)

    def _is_usable(self, running: RunningDaemon) -> bool:
        if not self._wait_for_answer(running):
            return False
        return running.version == self.version() or not (self.drains or self.idle(running.url))

    def _make_room(self, running: RunningDaemon) -> None:
        if self.drains and self.healthy(running.url) and not self.idle(running.url):
            self.state_file.rename(successor_marker(self.folder, self.name, running.pid))
        else:
            _stop(running)

    def _start(self) -> RunningDaemon:
        """Start it; a process that ends early is started again, as its port may have been taken."""
        for _ in range(_ATTEMPTS):
            log_size = self.log.stat().st_size if self.log.exists() else 0
            launch = self.launch()
            pid = start_detached(launch.argv, cwd=self.folder, log=self.log, env=launch.env)
            running = RunningDaemon(
                url=launch.url, pid=pid, process=process_label(pid), version=self.version()
            )
            # Saved before it answers: `down` must find it also when this process is killed now.
            if self._wait_for_answer(self._save(running)):
                return running
            if running.alive:
                break
        slow = f"did not answer within {self.start_timeout_s:g} s"
        problem = slow if running.alive else "ended while it was starting"
        _stop(running)
        at = f" at {running.url}" if running.url else ""
        last = _log_tail(self.log, log_size)
        raise self.unavailable(f"{self.title}{at} {problem}: see {self.log}. {last}")

    def _wait_for_answer(self, running: RunningDaemon) -> bool:
        """Wait while it lives and works; return True once it answers."""
        began = monotonic()
        next_report = began + self.report_after_s
        limit, used_s = began + self.start_timeout_s, 0.0
        while running.alive:
            if (now := monotonic()) >= limit:
                before_s, used_s = used_s, processor_s(running.pid)
                if used_s - before_s < _WORKING * self.start_timeout_s:
                    return False
                limit += self.start_timeout_s
            if self.healthy(running.url) and owns_port(running.pid, running.url):
                return True
            if now >= next_report:
                next_report += _REPORT_EVERY_S
                sys.stderr.write(f"{self.title} is still starting ({now - began:.0f} s)\n")
                sys.stderr.flush()
            sleep(0.1)
        return False


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


def start_detached(
    argv: Sequence[str], *, cwd: Path, log: Path, env: Mapping[str, str] | None = None
) -> int:
    """Start argv in a session of its own, with its output appended to `log`; return its pid.

    A second process starts it and exits, so it is not a child of this one and leaves no zombie.
    """
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _START, str(cwd), str(log), *argv],
        env=env,
        start_new_session=True,
        check=True,
        stdout=subprocess.PIPE,
    )
    return int(done.stdout)


def keys_version(secret: str, variables: re.Pattern[str]) -> str:
    """Return a hash of the code and of the environment variables that match; reveals no key."""
    env = sorted((k, v) for k, v in environment().items() if variables.search(k))
    content = repr((code_version(), env)).encode()
    return blake2b(content, key=secret.encode(), digest_size=16).hexdigest()


def settings_version(settings: BaseModel, secret: SecretStr | None = None) -> str:
    """Return a hash of these settings and of the secret among them, and the version of the code."""
    value = secret.get_secret_value() if secret else ""
    digest = sha256(f"{settings.model_dump_json()} {value}".encode()).hexdigest()
    return f"{digest} {code_version()}"


def code_version() -> str:
    """Return the version of the code: of a checkout, the newest modification time as well."""
    files = (path for package in _PACKAGES for path in (_ROOT / package).rglob("*.py"))
    return f"{installed_version('harness')} {max(path.stat().st_mtime for path in files)}"


def _running(state_file: Path) -> RunningDaemon | None:
    try:
        running = RunningDaemon(**json.loads(state_file.read_text()))
    except (FileNotFoundError, ValueError, TypeError):  # none, or not a state file
        return None
    return running if running.alive else None


def _log_tail(log: Path, after: int) -> str:
    """Return the last lines printed since byte `after`, without secrets of the environment."""
    with log.open("rb") as file:
        file.seek(max(after, log.stat().st_size - _LOG_TAIL))
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
