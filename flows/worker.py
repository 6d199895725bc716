"""The process worker of this machine: it does what deployments start."""

import socket
import sys

from flows import kept
from flows.deploy import POOL
from flows.kept import Kept, Launch
from flows.settings import Settings, config_file, environment


def worker(settings: Settings, api: str) -> Kept:
    """The worker that asks the server at `api` for work; another address replaces it."""

    def launch() -> Launch:
        port = kept.free_port()
        name = f"{socket.gethostname()}-{settings.home.name}"
        argv = (
            sys.executable,
            "-P",
            "-m",
            "prefect",
            "worker",
            "start",
            "--pool",
            POOL,
            "--name",
            name,
        )
        limit = ("--limit", str(settings.max_runs), "--with-healthcheck")
        return Launch((*argv, *limit), _env(settings, api, port), f"http://127.0.0.1:{port}")

    return Kept(
        name="worker",
        title="the worker",
        folder=settings.home / "prefect",
        launch=launch,
        healthy=_healthy,
        version=lambda: f"{api} {settings.max_runs}",
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
