"""The process that a worker starts for one run: `python -P -m flows.host.run_process`.

If the worker has a fork server, a fork of it executes the run: it has imported everything
already, which saves three seconds of processor time per run. Otherwise this process does.
"""

import os
import runpy
from contextlib import suppress

from flows.host.fork_client import end_like, run_forked

FORK_SERVER = "HARNESS_FORK_SERVER"
"""Environment variable with the name of the worker's fork server."""

ENGINE = "flows.host.engine_process"
"""Module that executes the run named by the environment."""


def main() -> None:
    """Let the fork server execute the run, or execute it here."""
    if name := os.environ.get(FORK_SERVER):
        with suppress(PermissionError):  # else a signal to the worker's group arrives twice
            os.setsid()
        status = run_forked(name, ())
        if status is not None:
            end_like(status)
    runpy.run_module(ENGINE, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
