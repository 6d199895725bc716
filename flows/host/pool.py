"""The keeper of warm sandboxes: a process that `harness up` keeps, one per `HARNESS_HOME`.

It has sandboxes started ahead, of the kind that a run with the settings' own agent wants;
whichever run comes first takes one. With `pool_size = 0` there is no keeper.
"""

import hashlib
import signal
import sys
import threading

from contracts.agents import CLI_AGENTS
from contracts.errors import Unavailable
from flows.config.environment import environment
from flows.config.settings import Settings, load_settings
from flows.execution.sandboxes import sandbox_spec
from flows.execution.wiring import docker_engine
from flows.services import daemon
from flows.services.daemon import Daemon, Launch
from flows.services.fingerprint import code_version
from sandbox.pool import POOL_RUN, SandboxPool

RETRY_S = 15.0
"""Between two attempts while there is no engine or no image."""


def up(settings: Settings) -> int:
    """Have the keeper that these settings want, or none; how many sandboxes it keeps warm.

    Raises:
        Unavailable: it does not start.
    """
    if settings.sandbox.pool_size:
        daemon.up(pool_daemon(settings))
    else:
        down(settings)
    return settings.sandbox.pool_size


def down(settings: Settings) -> bool:
    """Stop the keeper, and with it what nobody has taken; False when there was none."""
    return daemon.down(pool_daemon(settings))


def pool_daemon(settings: Settings) -> Daemon:
    """The keeper, as it is kept; one with other code or sandbox settings is replaced."""
    wanted = f"{settings.agent} {settings.sandbox.model_dump_json()}"
    return Daemon(
        name="pool",
        title="the keeper of warm sandboxes",
        folder=settings.home / "pool",
        launch=lambda: Launch((sys.executable, "-P", "-m", "flows.host.pool"), environment()),
        healthy=lambda _: True,
        version=lambda: f"{hashlib.sha256(wanted.encode()).hexdigest()[:16]} {code_version()}",
    )


def keep_filled(settings: Settings, stop: threading.Event) -> None:
    """Keep the sandboxes ready until `stop` is set; an engine that is away is waited for."""
    while not stop.is_set():
        try:
            docker = docker_engine()
            spec = sandbox_spec(settings, docker, POOL_RUN, cli=settings.agent in CLI_AGENTS)
            SandboxPool(docker, spec, size=settings.sandbox.pool_size).keep_filled(stop)
        except Unavailable as error:
            sys.stderr.write(f"no warm sandbox for now: {error}\n")
            sys.stderr.flush()
            stop.wait(RETRY_S)


def main() -> None:
    """Keep until the process is told to end."""
    stop = threading.Event()
    for sign in (signal.SIGTERM, signal.SIGINT):
        signal.signal(sign, lambda *_: stop.set())
    keep_filled(load_settings(), stop)


if __name__ == "__main__":
    main()
