"""The Prefect server on this machine, as a kept process.

A server that the user configured (PREFECT_API_URL or a profile) is used and never touched, unless
it is the one of this `HARNESS_HOME`. Where none is, that is started, and outlives the run that
needed it.
"""

import sys
from pathlib import Path

from contracts.errors import PrefectUnavailable
from flows.config.environment import environment
from flows.config.settings import Settings
from flows.services import daemon
from flows.services.daemon import Daemon, Launch, RunningDaemon
from flows.services.health import is_healthy
from flows.services.prefect_client import prefect_client

_ONE_CONNECTION = "?connections=:memory:"
"""Prefect takes an address with these letters for a database in memory: one connection to it.

With the fifteen that it opens to a file, eight runs at once make the whole server stand still for
sixty seconds, its busy timeout, again and again, and then say "database is locked".
"""

_PROGRAM = "flows.host.server_process"


def api_url(settings: Settings) -> str:
    """The URL of the Prefect API to use; starts the local server when none is configured.

    Raises:
        PrefectUnavailable: the configured server does not answer or is of another version, or
            ours does not start.
    """
    configured, ours = _configured_url(), status(settings)
    if configured is None or (ours is not None and _same(configured, ours.url)):
        return up(settings).url
    if not _healthy(configured):
        raise PrefectUnavailable(
            f"no Prefect server answers at {configured}: start it, or unset PREFECT_API_URL "
            "(and the profile's) to let Harness keep one on this machine"
        )
    with prefect_client(configured):
        return configured


def current_api_url(settings: Settings) -> str | None:
    """The URL of the API that a run would use now; None when it would start a server."""
    ours = status(settings)
    return _configured_url() or (ours.url if ours else None)


def ui_url(api: str) -> str:
    """Where a person looks at what the API at `api` serves."""
    return api.removesuffix("/api")


def up(settings: Settings) -> RunningDaemon:
    """The running local server, started now if need be.

    Raises:
        PrefectUnavailable: it ended or got stuck; the message names its log.
    """
    return daemon.up(server_daemon(settings))


def status(settings: Settings) -> RunningDaemon | None:
    """The local server if its process lives."""
    return daemon.status(server_daemon(settings))


def down(settings: Settings) -> bool:
    """Stop the local server; False when none was running."""
    return daemon.down(server_daemon(settings))


def server_daemon(settings: Settings) -> Daemon:
    """The local server, as it is kept. The first start makes the database: 13 s when idle.

    One that was started by another program is replaced, once no run is under way.
    """
    folder = settings.home / "prefect"

    def launch() -> Launch:
        port = daemon.free_port(settings.server_port)
        url = f"http://127.0.0.1:{port}/api"
        argv = (sys.executable, "-P", "-m", _PROGRAM, str(port))
        return Launch(argv, _server_env(folder, url), url)

    return Daemon(
        name="server",
        title="the local Prefect server",
        folder=folder,
        launch=launch,
        healthy=_healthy,
        version=lambda: _PROGRAM,
        idle=_idle,
        unavailable=PrefectUnavailable,
    )


def _configured_url() -> str | None:
    from prefect.settings import get_current_settings

    return get_current_settings().api.url


def _same(one: str, other: str) -> bool:
    return one.rstrip("/").replace("//localhost:", "//127.0.0.1:") == other


def _server_env(folder: Path, url: str) -> dict[str, str]:
    env = {k: v for k, v in environment().items() if not k.startswith("PREFECT_")}
    return env | {
        "DO_NOT_TRACK": "1",
        "PREFECT_HOME": str(folder),
        "PREFECT_UI_API_URL": "/api",  # by whichever name a person opened it
        "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": ui_url(url),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_SERVER_METRICS_ENABLED": "true",
        "PREFECT_API_DATABASE_CONNECTION_URL": (
            f"sqlite+aiosqlite:///{folder}/prefect.db{_ONE_CONNECTION}"
        ),
    }


def _healthy(url: str) -> bool:
    return is_healthy(f"{url}/health")


def _idle(url: str) -> bool:
    import httpx

    states = {"type": {"any_": ["PENDING", "RUNNING", "CANCELLING"]}}
    try:
        said = httpx.post(f"{url}/flow_runs/count", json={"flow_runs": {"state": states}})
        return bool(said.raise_for_status().json() == 0)
    except httpx.HTTPError:
        return False
