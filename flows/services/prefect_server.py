"""The Prefect server to use, a configured one or the local daemon, and clients of it.

A server that the user configured (PREFECT_API_URL or a profile) is used and never touched, unless
it is the daemon of this `HARNESS_HOME`. Otherwise the daemon is started when a run needs it, and
keeps running.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from contracts.errors import PrefectUnavailable
from flows.config.environment import environment
from flows.config.settings import Settings
from flows.services.daemon import Daemon, Launch
from flows.services.local_http import free_port, is_healthy

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient

_ONE_CONNECTION = "?connections=:memory:"
"""Makes Prefect open a single connection, as for a database in memory.

With its fifteen connections to an SQLite file, eight concurrent runs block the whole server for
sixty seconds (its busy timeout) again and again, and then fail with "database is locked".
Measured with `python -m benchmarks.operate.rows 200 queue`.
"""

_PROGRAM = "flows.host.server_process"


def api_url(settings: Settings) -> str:
    """Return the URL of the Prefect API to use; start the local server if none is configured.

    Raises:
        PrefectUnavailable: the configured server does not answer or has another version, or the
            local one does not start.
    """
    configured, local = _configured_url(), server_daemon(settings).status()
    if configured is None or (local is not None and _is_same(configured, local.url)):
        return server_daemon(settings).up().url
    if not _healthy(configured):
        raise PrefectUnavailable(
            f"no Prefect server answers at {configured}: start it, or unset PREFECT_API_URL "
            "(and the profile's) so that Harness runs one on this machine"
        )
    with prefect_client(configured):
        return configured


def current_api_url(settings: Settings) -> str | None:
    """Return the URL of the API that a run would use now; None if it would start a server."""
    local = server_daemon(settings).status()
    return _configured_url() or (local.url if local else None)


def ui_url(api: str) -> str:
    """Return the URL of the UI of the server whose API is at `api`."""
    return api.removesuffix("/api")


def server_daemon(settings: Settings) -> Daemon:
    """The daemon of the local server. A new one copies a database that was migrated before."""
    folder = settings.home / "prefect"

    def launch() -> Launch:
        port = free_port(settings.server_port)
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
        idle=_is_idle,
        unavailable=PrefectUnavailable,
    )


@contextmanager
def use_server(api: str) -> Iterator[None]:
    """Make Prefect use this server until the block ends."""
    from prefect.context import SettingsContext, get_settings_context

    context = get_settings_context()
    settings = context.settings
    if settings.api.url == api:
        yield
        return
    # Prefect's own `temporary_settings` reads every source of settings again, in 0.2 s.
    own = settings.model_copy(update={"api": settings.api.model_copy(update={"url": api})})
    with SettingsContext(profile=context.profile, settings=own):
        yield


@contextmanager
def prefect_client(api: str) -> "Iterator[SyncPrefectClient]":
    """Give a client of the server at `api`, until the block ends.

    Raises:
        PrefectUnavailable: the server does not answer, refuses a request, or has another version.
    """
    from httpx import HTTPError
    from prefect import get_client

    try:
        with use_server(api), get_client(sync_client=True) as client:
            _check_version(client, api)
            yield client
    except HTTPError as error:
        raise PrefectUnavailable(
            f"a request to the Prefect server at {api} failed: {error}"
        ) from error


def _check_version(client: "SyncPrefectClient", api: str) -> None:
    try:
        client.raise_for_api_version_mismatch()
    except RuntimeError as error:
        raise PrefectUnavailable(f"the Prefect server at {api} cannot be used: {error}") from error


def _configured_url() -> str | None:
    from prefect.settings import get_current_settings

    return get_current_settings().api.url


def _is_same(url: str, local_url: str) -> bool:
    return url.rstrip("/").replace("//localhost:", "//127.0.0.1:") == local_url


def _server_env(folder: Path, url: str) -> dict[str, str]:
    # The user's variables, such as a database or a password, belong to another server.
    env = {k: v for k, v in environment().items() if not k.startswith("PREFECT_")}
    return env | {
        "DO_NOT_TRACK": "1",
        "PREFECT_HOME": str(folder),
        "PREFECT_UI_API_URL": "/api",  # relative: the page may be opened by another host name
        "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": ui_url(url),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_SERVER_METRICS_ENABLED": "true",
        "PREFECT_API_DATABASE_CONNECTION_URL": (
            f"sqlite+aiosqlite:///{folder}/prefect.db{_ONE_CONNECTION}"
        ),
    }


def _healthy(url: str) -> bool:
    return is_healthy(f"{url}/health")


def _is_idle(url: str) -> bool:
    import httpx

    states = {"type": {"any_": ["PENDING", "RUNNING", "CANCELLING"]}}
    try:
        answer = httpx.post(f"{url}/flow_runs/count", json={"flow_runs": {"state": states}})
        return bool(answer.raise_for_status().json() == 0)
    except httpx.HTTPError:
        return False
