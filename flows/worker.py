"""The process workers of this machine: they do what deployments start."""

import socket
import sys

from flows import kept
from flows.deploy import POOL, UPKEEP
from flows.kept import Kept, Launch
from flows.settings import Settings, config_file, environment


def worker(settings: Settings, api: str) -> Kept:
    """The worker that asks the server at `api` for work; another address replaces it."""
    name = f"{socket.gethostname()}-{settings.home.name}"
    return _worker(settings, api, kept_as="worker", name=name, limit=settings.max_runs)


def upkeep_worker(settings: Settings, api: str) -> Kept:
    """The worker that does upkeep only, so that it waits for no run to end."""
    name = f"{socket.gethostname()}-{settings.home.name}-{UPKEEP}"
    return _worker(settings, api, "--work-queue", UPKEEP, kept_as=UPKEEP, name=name, limit=1)


def _worker(settings: Settings, api: str, *queue: str, kept_as: str, name: str, limit: int) -> Kept:
    def launch() -> Launch:
        port = kept.free_port()
        prefect = (sys.executable, "-P", "-m", "prefect")
        argv = (*prefect, "worker", "start", "--pool", POOL, "--name", name, *queue)
        bounds = ("--limit", str(limit), "--with-healthcheck")
        return Launch((*argv, *bounds), _env(settings, api, port), f"http://127.0.0.1:{port}")

    return Kept(
        name=kept_as,
        title="the worker" if kept_as == "worker" else f"the {kept_as} worker",
        folder=settings.home / "prefect",
        launch=launch,
        healthy=_healthy,
        version=lambda: f"{api} {limit}",
    )


def _env(settings: Settings, api: str, port: int) -> dict[str, str]:
    return {
        **environment(),
        "DO_NOT_TRACK": "1",
        "HARNESS_HOME": str(settings.home),
        "HARNESS_CONFIG": str(config_file().absolute()),
        "PREFECT_API_URL": api,
        "PREFECT_WORKER_WEBSERVER_HOST": "127.0.0.1",
        "PREFECT_WORKER_WEBSERVER_PORT": str(port),
    }


def _healthy(url: str) -> bool:
    import httpx

    try:
        return httpx.get(f"{url}/health", timeout=5.0).is_success
    except httpx.HTTPError:
        return False
