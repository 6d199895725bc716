"""The process workers of this machine: they do what deployments start."""

import os
import re
import socket
import sys
from pathlib import Path

from flows.config.environment import config_file, environment
from flows.config.settings import Settings
from flows.services import daemon, gateway
from flows.services.daemon import Daemon, Launch
from flows.services.deploy import UPKEEP_QUEUE
from flows.services.fingerprint import PROVIDER_VARIABLES, RUN_PACKAGES, fingerprint
from flows.services.health import is_healthy

LOOK_S = 2
"""Between two questions of the worker for work, besides one whenever a run is over."""

_MATTERS = re.compile(
    rf"{PROVIDER_VARIABLES.pattern}|KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL|^(HARNESS|PREFECT|DOCKER)_",
    re.IGNORECASE,
)
"""Variables of a worker that its runs go by."""


def worker_daemon(settings: Settings, api: str) -> Daemon:
    """The worker that asks the server at `api` for work.

    Another address, limit, code or key replaces it, once it has no run under way.
    """
    name = f"{socket.gethostname()}-{settings.home.name}"
    return _worker(settings, api, kept_as="worker", name=name, limit=settings.max_runs)


def upkeep_worker_daemon(settings: Settings, api: str) -> Daemon:
    """The worker that does upkeep only, so that it waits for no run to end."""
    name = f"{socket.gethostname()}-{settings.home.name}-{UPKEEP_QUEUE}"
    return _worker(settings, api, UPKEEP_QUEUE, kept_as=UPKEEP_QUEUE, name=name, limit=1)


def _worker(
    settings: Settings, api: str, *queue: str, kept_as: str, name: str, limit: int
) -> Daemon:
    def launch() -> Launch:
        port = daemon.free_port()
        argv = (sys.executable, "-P", "-m", "flows.host.worker_process", name, str(limit), *queue)
        return Launch(argv, _env(settings, api, port), f"http://127.0.0.1:{port}")

    made = Daemon(
        name=kept_as,
        title="the worker" if kept_as == "worker" else f"the {kept_as} worker",
        folder=settings.home / "prefect",
        launch=launch,
        healthy=lambda url: is_healthy(f"{url}/health"),
        version=lambda: (
            f"{api} {limit} {fingerprint(gateway.secret(settings), RUN_PACKAGES, _MATTERS)}"
        ),
        idle=lambda _: not _at_work(made),
    )
    return made


def _at_work(made: Daemon) -> bool:
    """Whether the worker has a process under it: each is for a run, but for the fork server."""
    running = daemon.status(made)
    tasks = Path("/proc", str(running.pid)).glob("task/*/children") if running else ()
    pids = " ".join(path.read_text() for path in tasks).split()
    return any(not _is_fork_server(pid) for pid in pids)


def _is_fork_server(pid: str) -> bool:
    try:
        return b"flows.host.fork_server" in Path("/proc", pid, "cmdline").read_bytes().split(b"\0")
    except OSError:
        return False


def _env(settings: Settings, api: str, port: int) -> dict[str, str]:
    ours = (str(Path(sys.executable).parent), environment().get("PATH", os.defpath))
    return {
        "PREFECT_WORKER_QUERY_SECONDS": str(LOOK_S),
        **environment(),
        "PATH": os.pathsep.join(ours),
        "DO_NOT_TRACK": "1",
        "HARNESS_HOME": str(settings.home),
        "HARNESS_CONFIG": str(config_file()),
        "PREFECT_API_URL": api,
        "PREFECT_WORKER_WEBSERVER_HOST": "127.0.0.1",
        "PREFECT_WORKER_WEBSERVER_PORT": str(port),
    }
