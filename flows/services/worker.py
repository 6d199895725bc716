"""The daemons of this machine's workers, which execute the runs that deployments start."""

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
from flows.services.ports import free_port, is_healthy

POLL_S = 2
"""Seconds between two requests of a worker for scheduled runs."""

_VARIABLES = re.compile(
    rf"{PROVIDER_VARIABLES.pattern}|KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL|^(HARNESS|PREFECT|DOCKER)_",
    re.IGNORECASE,
)
"""Environment variables of a worker that its runs use."""


def worker_daemon(settings: Settings, api: str) -> Daemon:
    """The worker for the server at `api`; it is replaced if address, limit, code or keys change."""
    name = f"{socket.gethostname()}-{settings.home.name}"
    return _daemon(settings, api, kind="worker", name=name, limit=settings.max_runs)


def upkeep_worker_daemon(settings: Settings, api: str) -> Daemon:
    """The worker that executes upkeep only, so that upkeep never waits for runs to end."""
    name = f"{socket.gethostname()}-{settings.home.name}-{UPKEEP_QUEUE}"
    return _daemon(settings, api, UPKEEP_QUEUE, kind=UPKEEP_QUEUE, name=name, limit=1)


def _daemon(settings: Settings, api: str, *queue: str, kind: str, name: str, limit: int) -> Daemon:
    def launch() -> Launch:
        port = free_port()
        argv = (sys.executable, "-P", "-m", "flows.host.worker_process", name, str(limit), *queue)
        return Launch(argv, _env(settings, api, port), f"http://127.0.0.1:{port}")

    def version() -> str:
        used = fingerprint(gateway.secret(settings), RUN_PACKAGES, _VARIABLES)
        return f"{api} {limit} {used}"

    made = Daemon(
        name=kind,
        title="the worker" if kind == "worker" else f"the {kind} worker",
        folder=settings.home / "prefect",
        launch=launch,
        healthy=lambda url: is_healthy(f"{url}/health"),
        version=version,
        idle=lambda _: not _executes_run(made),
    )
    return made


def _executes_run(worker: Daemon) -> bool:
    """Return True if the worker has child processes, as each executes a run.

    The fork server is a child too, and executes no run itself.
    """
    running = daemon.status(worker)
    tasks = Path("/proc", str(running.pid)).glob("task/*/children") if running else ()
    children = " ".join(path.read_text() for path in tasks).split()
    return any(b"flows.host.fork_server" not in _command_line(pid) for pid in children)


def _command_line(pid: str) -> bytes:
    try:
        return Path("/proc", pid, "cmdline").read_bytes()
    except OSError:  # the process has ended
        return b""


def _env(settings: Settings, api: str, port: int) -> dict[str, str]:
    path = (str(Path(sys.executable).parent), environment().get("PATH", os.defpath))
    return {
        "PREFECT_WORKER_QUERY_SECONDS": str(POLL_S),
        **environment(),
        "PATH": os.pathsep.join(path),
        "DO_NOT_TRACK": "1",
        "HARNESS_HOME": str(settings.home),
        "HARNESS_CONFIG": str(config_file()),
        "PREFECT_API_URL": api,
        "PREFECT_WORKER_WEBSERVER_HOST": "127.0.0.1",
        "PREFECT_WORKER_WEBSERVER_PORT": str(port),
    }
