"""What does one run: Prefect's engine, which outlives the worker.

A worker reads what its runs print. When it dies nobody does, and Prefect ends a run that
prints to nobody; so runs print into the worker's log themselves.
"""

import os
import runpy
import sys
from importlib import import_module

from flows.settings import load_settings
from flows.worker import worker

_NEEDED = (
    "prefect.flow_engine", "flows.deployed", "flows.approve",
    "memory.library", "memory.notebook", "memory.learn", "memory.recall", "docker",
)  # fmt: skip
"""What a run would import, each without a thread, a connection or a look at the settings."""


def get_ready() -> None:
    """Import what every run needs."""
    for name in _NEEDED:
        import_module(name)


def main() -> None:
    """Do the flow run that the environment names."""
    log = worker(load_settings(), "").log
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as said:
        for stream in (sys.stdout, sys.stderr):
            os.dup2(said.fileno(), stream.fileno())
    sys.modules.pop("prefect.engine", None)  # what is there already, runpy warns of
    runpy.run_module("prefect.engine", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
