"""The process of one run that a worker starts: Prefect's engine, which outlives the worker.

A worker reads what its runs print. When it dies nobody does, and Prefect ends a run that
prints to nobody; so runs print into the worker's log themselves.
"""

import os
import runpy
import sys

from flows.settings import load_settings
from flows.worker import worker


def main() -> None:
    """Do the flow run that the environment names."""
    log = worker(load_settings(), "").log
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as said:
        for stream in (sys.stdout, sys.stderr):
            os.dup2(said.fileno(), stream.fileno())
    runpy.run_module("prefect.engine", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
