"""The fork server of a worker."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from secrets import token_hex
from subprocess import PIPE, Popen
from threading import Event, Thread
from time import sleep

from flows.config.environment import environment, set_variables
from flows.host.fork_server import listens
from flows.host.run_process import FORK_SERVER

PAUSE_S = 15.0
"""Seconds before a fork server that ended is started again, as starting costs seconds of a core."""

_POLL_S = 0.01


@contextmanager
def forking(module: str, env: Mapping[str, str]) -> Iterator[Popen[bytes]]:
    """Keep a fork server during the block, for each `flows.host.run_process` started in it.

    `env` overrides this process's variables. A fork server that ends, because it died or because
    the code has changed, is started again; until then, each run is a new process.
    """
    name, ended = f"harness-{token_hex(8)}", Event()
    servers = [_start_server(name, module, env)]

    def restart() -> None:
        while servers[-1].wait() is not None and not ended.wait(PAUSE_S):
            _close_stdin(servers[-1])
            servers.append(_start_server(name, module, env))

    Thread(target=restart, name="fork server", daemon=True).start()
    with set_variables({FORK_SERVER: name}):
        yield servers[0]
    ended.set()
    _close_stdin(servers[-1])


def _close_stdin(server: Popen[bytes]) -> None:
    if server.stdin is not None:
        server.stdin.close()


def _start_server(name: str, module: str, env: Mapping[str, str]) -> Popen[bytes]:
    server = Popen(
        (sys.executable, "-P", "-m", "flows.host.fork_server", name, module),
        stdin=PIPE,  # its end tells the server that the worker has ended
        env={**environment(), **env, FORK_SERVER: name},  # as in its runs
    )
    while not listens(name) and server.poll() is None:
        sleep(_POLL_S)
    return server
