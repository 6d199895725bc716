"""The daemon that keeps warm sandboxes: `python -m flows.host.pool`.

It starts sandboxes ahead, as a run with the agent of the settings needs them, and a run takes
one. With `pool_size = 0` there is no such daemon.
"""

import signal
import sys
import threading

from contracts.agents import CLI_AGENTS
from contracts.errors import Unavailable
from flows.config.environment import environment
from flows.config.settings import Settings, load_settings
from flows.execution.sandboxes import sandbox_spec
from flows.execution.wiring import docker_engine
from flows.services.daemon import Daemon, Launch, settings_version
from sandbox.pool import POOL_RUN, SandboxPool

RETRY_S = 15.0
"""Between two attempts while there is no Docker engine or no image."""


def pool_daemon(settings: Settings) -> Daemon:
    """The daemon; it is replaced when the code or the settings of sandboxes change."""
    return Daemon(
        name="pool",
        title="the pool of warm sandboxes",
        folder=settings.home / "pool",
        launch=lambda: Launch((sys.executable, "-P", "-m", "flows.host.pool"), environment()),
        healthy=lambda _: True,
        version=lambda: f"{settings.agent} {settings_version(settings.sandbox)}",
    )


def keep_filled(settings: Settings, stop: threading.Event) -> None:
    """Keep the sandboxes ready until `stop` is set; wait while there is no Docker engine."""
    while not stop.is_set():
        try:
            engine = docker_engine()
            spec = sandbox_spec(settings, engine, POOL_RUN, cli=settings.agent in CLI_AGENTS)
            SandboxPool(engine, spec, size=settings.sandbox.pool_size).keep_filled(stop)
        except Unavailable as error:
            sys.stderr.write(f"no warm sandbox for now: {error}\n")
            sys.stderr.flush()
            stop.wait(RETRY_S)


def main() -> None:
    """Keep the pool filled until SIGTERM or SIGINT."""
    stop = threading.Event()
    for sign in (signal.SIGTERM, signal.SIGINT):
        signal.signal(sign, lambda *_: stop.set())
    keep_filled(load_settings(), stop)


if __name__ == "__main__":
    main()
