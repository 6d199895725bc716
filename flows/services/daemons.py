"""The daemons of `harness up` beside server and gateway: pages, webhooks, workers, Chroma."""

import os
import re
import socket
import sys
from functools import partial
from pathlib import Path
from secrets import token_urlsafe
from urllib.parse import urlsplit

from flows.config.environment import config_file, environment
from flows.config.settings import LOOPBACK_HOSTS, Settings
from flows.services import gateway
from flows.services.daemon import (
    PROVIDER_VARIABLES,
    Daemon,
    Launch,
    keys_version,
    settings_version,
)
from flows.services.deploy import UPKEEP_QUEUE
from flows.services.local_http import free_port, http_url, is_healthy

POLL_S = 2
"""Seconds between two requests of a worker for scheduled runs."""

UPKEEP_POLL_S = 10
"""Seconds between two requests of the worker for upkeep. The worker for runs takes upkeep too,
while it has a free slot."""

_WORKER_VARIABLES = re.compile(
    rf"{PROVIDER_VARIABLES.pattern}|KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL|^(HARNESS|PREFECT|DOCKER)_",
    re.IGNORECASE,
)
"""Environment variables of a worker that its runs use."""


def pages_daemon(settings: Settings) -> Daemon:
    """The daemon of the pages; it is replaced when the code or the settings `ui` change."""

    def launch() -> Launch:
        host = settings.ui.host
        port = free_port(settings.ui.port, host)
        env = _env(settings) | {"HARNESS_UI__PORT": str(port)}
        url = f"{http_url(host, port)}/"
        if settings.ui.token is None and host not in LOOPBACK_HOSTS:
            env["HARNESS_UI__TOKEN"] = token_urlsafe(32)
            url += f"?token={env['HARNESS_UI__TOKEN']}"
        return Launch((sys.executable, "-P", "-m", "app.web.serve"), env, url)

    return Daemon(
        name="pages",
        title="the pages",
        folder=settings.home / "pages",
        launch=launch,
        healthy=partial(is_healthy, accept_refusal=True),  # the pages may require a token
        version=lambda: settings_version(settings.ui, settings.ui.token),
    )


def pages_url(settings: Settings) -> str | None:
    """Return the URL of the pages without their token; None if they do not run."""
    running = pages_daemon(settings).status()
    return running.url.partition("?")[0] if running is not None else None


def receiver_daemon(settings: Settings) -> Daemon:
    """The daemon of webhooks; it is replaced when the code or the settings `webhooks` change."""

    def launch() -> Launch:
        host = settings.webhooks.host
        port = free_port(settings.webhooks.port, host)
        env = _env(settings) | {"HARNESS_WEBHOOKS__PORT": str(port)}
        return Launch((sys.executable, "-P", "-m", "app.web.webhooks"), env, http_url(host, port))

    return Daemon(
        name="webhooks",
        title="the receiver of webhooks",
        folder=settings.home / "webhooks",
        launch=launch,
        healthy=lambda url: is_healthy(f"{url}/health"),
        version=lambda: settings_version(settings.webhooks, settings.webhooks.secret),
    )


def chroma_daemon(settings: Settings, url: str | None) -> Daemon:
    """The daemon that serves the index at `url`."""
    program = str(Path(sys.executable).with_name("chroma"))
    folder = settings.home / "chroma"

    def launch() -> Launch:
        address = ("--host", "127.0.0.1", "--port", str(urlsplit(url or "").port))
        return Launch((program, "run", *address, "--path", str(folder)), environment(), str(url))

    return Daemon(
        name="chroma",
        title="the Chroma server",
        folder=folder,
        launch=launch,
        healthy=lambda url: is_healthy(f"{url}/api/v2/heartbeat"),
        fixed_url=url or "",
    )


def is_local_address(url: str | None) -> bool:
    """Return True if this `memory.chroma_url` is a loopback address with a port."""
    parts = urlsplit(url or "")
    return parts.hostname in LOOPBACK_HOSTS and parts.port is not None


def machine_name(settings: Settings) -> str:
    """Return the name of this machine among those of a server, and of its worker for runs."""
    return f"{socket.gethostname()}-{settings.home.name}"


def worker_daemon(settings: Settings, api: str) -> Daemon:
    """The worker for the server at `api`; it is replaced if address, limit, code or keys change."""
    return _worker(settings, api, "worker", "the worker", poll_s=POLL_S, limit=settings.max_runs)


def upkeep_worker_daemon(settings: Settings, api: str) -> Daemon:
    """The worker that executes upkeep only, so that upkeep never waits for runs to end."""
    title = "the upkeep worker"
    return _worker(settings, api, UPKEEP_QUEUE, title, UPKEEP_QUEUE, poll_s=UPKEEP_POLL_S, limit=1)


def _worker(
    settings: Settings, api: str, name: str, title: str, *queues: str, poll_s: int, limit: int
) -> Daemon:
    worker_name = "-".join((machine_name(settings), *queues))

    def launch() -> Launch:
        port = str(free_port())
        path = (str(Path(sys.executable).parent), environment().get("PATH", os.defpath))
        env = {"PREFECT_WORKER_QUERY_SECONDS": str(poll_s)} | _env(settings)
        env |= {
            "PATH": os.pathsep.join(path),
            "DO_NOT_TRACK": "1",
            "PREFECT_API_URL": api,
            "PREFECT_WORKER_WEBSERVER_HOST": "127.0.0.1",
            "PREFECT_WORKER_WEBSERVER_PORT": port,
        }
        program = (sys.executable, "-P", "-m", "flows.host.worker_process")
        argv = (*program, worker_name, str(limit), *queues)
        return Launch(argv, env, f"http://127.0.0.1:{port}")

    def version() -> str:
        return f"{api} {limit} {keys_version(gateway.secret(settings), _WORKER_VARIABLES)}"

    worker = Daemon(
        name=name,
        title=title,
        folder=settings.home / "prefect",
        launch=launch,
        healthy=lambda url: is_healthy(f"{url}/health"),
        version=version,
        idle=lambda _: not _executes_run(worker),
    )
    return worker


def _executes_run(worker: Daemon) -> bool:
    """Return True if the worker has child processes, as each executes a run.

    The fork server is a child too, and executes no run itself.
    """
    running = worker.status()
    tasks = Path("/proc", str(running.pid)).glob("task/*/children") if running else ()
    children = " ".join(path.read_text() for path in tasks).split()
    return any(b"flows.host.fork_server" not in _command_line(pid) for pid in children)


def _command_line(pid: str) -> bytes:
    try:
        return Path("/proc", pid, "cmdline").read_bytes()
    except OSError:  # the process has ended
        return b""


def _env(settings: Settings) -> dict[str, str]:
    own = {"HARNESS_HOME": str(settings.home), "HARNESS_CONFIG": str(config_file())}
    return {**environment(), **own}
