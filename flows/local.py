"""The Prefect server on this machine: found, started, kept, stopped.

A server that the user configured (PREFECT_API_URL or a profile) is used and never touched.
Where none is, one server per `HARNESS_HOME` is started and outlives the run that needed it.
"""

import json
import os
import signal
import socket
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from time import monotonic, sleep

from contracts.errors import PrefectUnavailable
from flows.detached import start_detached
from flows.settings import Settings, environment
from sandbox.process import is_dead, process_label

START_TIMEOUT_S = 120.0
"""The first start makes the database: 13 s on an idle machine."""

STOP_TIMEOUT_S = 15.0

_SERVER = (sys.executable, "-m", "prefect", "server", "start")


@dataclass(frozen=True, kw_only=True)
class LocalServer:
    """A server of ours. `process` tells it from a later process with the same pid."""

    url: str
    pid: int
    process: str

    @property
    def alive(self) -> bool:
        return not is_dead(self.process)


def api_url(settings: Settings) -> str:
    """The URL of the Prefect API to use; starts the local server when none is configured.

    Raises:
        PrefectUnavailable: the configured server does not answer, or ours does not start.
    """
    configured = _configured_url()
    if configured is None:
        return up(settings).url
    if not _healthy(configured):
        raise PrefectUnavailable(
            f"no Prefect server answers at {configured}: start it, or unset PREFECT_API_URL "
            "(and the profile's) to let Harness keep one on this machine"
        )
    return configured


def ui_url(api: str) -> str:
    """Where a person looks at what the API at `api` serves."""
    return api.removesuffix("/api")


def up(settings: Settings) -> LocalServer:
    """The running local server, started now if need be.

    Raises:
        PrefectUnavailable: it did not answer in time; the message names its log.
    """
    from filelock import FileLock

    folder = _folder(settings)
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / "lock"):
        server = status(settings)
        if server is not None and _wait(server, 10.0):
            return server
        if server is not None:
            _stop(server)
        return _start(settings)


def status(settings: Settings) -> LocalServer | None:
    """The local server if its process lives; a state file that cannot be read is no server."""
    try:
        server = LocalServer(**json.loads(_state(settings).read_text()))
    except (FileNotFoundError, ValueError, TypeError):
        return None
    return server if server.alive else None


def down(settings: Settings) -> bool:
    """Stop the local server; False when none was running."""
    server = status(settings)
    if server is not None:
        _stop(server)
    _state(settings).unlink(missing_ok=True)
    return server is not None


def log_file(settings: Settings) -> Path:
    """What the local server printed."""
    return _folder(settings) / "server.log"


def _configured_url() -> str | None:
    from prefect.settings import get_current_settings

    return get_current_settings().api.url


def _start(settings: Settings) -> LocalServer:
    folder = _folder(settings)
    port = _free_port(settings.server_port)
    url = f"http://127.0.0.1:{port}/api"
    pid = start_detached(
        (*_SERVER, "--host", "127.0.0.1", "--port", str(port)),
        cwd=folder,
        log=log_file(settings),
        env=_server_env(folder, url),
    )
    server = LocalServer(url=url, pid=pid, process=process_label(pid))
    _state(settings).write_text(json.dumps(asdict(server)))
    if not _wait(server, START_TIMEOUT_S):
        _stop(server)
        raise PrefectUnavailable(
            f"the local Prefect server did not answer at {url} within {START_TIMEOUT_S:g} s: "
            f"see {log_file(settings)}"
        )
    return server


def _server_env(folder: Path, url: str) -> dict[str, str]:
    env = {k: v for k, v in environment().items() if not k.startswith("PREFECT_")}
    return env | {
        "DO_NOT_TRACK": "1",
        "PREFECT_HOME": str(folder),
        "PREFECT_UI_API_URL": url,
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_API_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{folder}/prefect.db",
    }


def _wait(server: LocalServer, timeout_s: float) -> bool:
    give_up = monotonic() + timeout_s
    while server.alive and monotonic() < give_up:
        if _healthy(server.url):
            return True
        sleep(0.1)
    return False


def _healthy(url: str) -> bool:
    import httpx

    try:
        return httpx.get(f"{url}/health", timeout=5.0).is_success
    except httpx.HTTPError:
        return False


def _stop(server: LocalServer) -> None:
    for sign in (signal.SIGTERM, signal.SIGKILL):
        give_up = monotonic() + STOP_TIMEOUT_S
        with suppress(ProcessLookupError):
            os.killpg(os.getpgid(server.pid), sign)
        while server.alive and monotonic() < give_up:
            sleep(0.05)


def _free_port(wanted: int) -> int:
    for port in (wanted, 0):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return int(probe.getsockname()[1])
    raise PrefectUnavailable("no free port on 127.0.0.1 for the local Prefect server")


def _folder(settings: Settings) -> Path:
    return settings.home / "prefect"


def _state(settings: Settings) -> Path:
    return _folder(settings) / "server.json"
