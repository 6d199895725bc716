"""The fork servers of the command line, one for each home and set of variables.

A command that needs Prefect would import for two seconds. The first such command leaves a fork
server behind, from which the following are forked; it ends after an idle time, and when the code
changes. Every command imports this module, so it imports nothing of Harness but `fork_client`.
"""

import os
import re
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from flows.host.fork_client import end_like, run_forked, start_variables, stop

_PREFIX = "harness-commands"


def execute_forked(arguments: Sequence[str]) -> None:
    """Execute the command in a fork and end this process likewise; return if it cannot be."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:  # a Ctrl-C ends this process without a traceback
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    name = ""
    with suppress(OSError, RuntimeError):  # no home or no current folder: the command says so
        name = server_name(os.environ)
    status = run_forked(name, arguments) if name else None
    if status is not None:
        end_like(status)
    signal.signal(signal.SIGINT, before)


def server_name(env: Mapping[str, str]) -> str:
    """Return the name of the fork server whose forks do the same as a process that starts."""
    same = (sys.executable, __file__, sorted(start_variables(env).items()))
    return f"{_home_prefix()}{_digest(same)}"


def start_server(module: str, env: Mapping[str, str]) -> None:
    """Start the fork server unless there is one or the settings want none; do not wait for it.

    The module has `get_ready` and `main`. `env` is the environment that this process started
    with; libraries have set variables since.
    """
    from flows.config.settings import load_settings
    from flows.host.fork_server import listens
    from flows.services.daemon import start_detached

    settings, name = load_settings(), server_name(env)
    if listens(name) or not settings.fork_server_idle_s:
        return
    log = settings.home / "logs" / "fork-server.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    program = (sys.executable, "-P", "-m", "flows.host.fork_server")
    argv = (*program, name, module, str(settings.fork_server_idle_s))
    start_detached(argv, cwd=settings.home, log=log, env=env)


def stop_servers() -> int:
    """Have the fork servers of this home end after the commands that they execute; count them."""
    sockets = Path("/proc/net/unix").read_text()
    names = set(re.findall(rf"@({_home_prefix()}\w+)$", sockets, re.MULTILINE))
    for name in names:
        stop(name)
    return len(names)


def _home_prefix() -> str:
    home = Path(os.environ.get("HARNESS_HOME") or "~/.harness").expanduser().absolute()
    config = os.environ.get("HARNESS_CONFIG") or ""
    return f"{_PREFIX}-{os.getuid()}-{_digest((home, config and Path(config).absolute()))}-"


def _digest(value: object) -> str:
    return sha256(repr(value).encode("utf-8", "surrogateescape")).hexdigest()[:12]
