"""Executes one flow run with Prefect's engine, in a fork of the fork server.

The engine, `python -m prefect.engine`, reads the flow run's id from the environment.
"""

import os
import runpy
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module

from contracts.errors import SettingsInvalid
from flows.config.memory import load_memory_settings
from flows.config.policy import load_policy_settings
from flows.config.settings import load_settings
from flows.runs import checkpoint, report
from flows.services.daemons import worker_daemon

_NEEDED = (
    "prefect.flow_engine", "prefect.task_engine", "prefect.deployments.steps", "prefect.runner",
    "fastapi.encoders", "anyio._backends._asyncio", "rich._emoji_codes", "graphviz",
    "flows.deployed", "flows.approve",
    "flows.recall.curation", "flows.recall.library", "flows.services.gateway",
    "memory.curation.curate", "memory.notes.notebook",
    "memory.playbooks.learn", "memory.playbooks.library", "memory.playbooks.recall",
    "docker",
)  # fmt: skip
"""Modules that a run imports. Importing them starts no thread and opens no connection."""


def get_ready() -> None:
    """Import the modules and read the settings that every run needs, before forking."""
    for name in _NEEDED:
        import_module(name)
    for make in (report.adapter, checkpoint.adapter):
        make()
    with suppress(SettingsInvalid):  # the run reports invalid settings
        for load in (load_settings, load_memory_settings, load_policy_settings):
            load()


def main() -> None:
    """Execute the flow run that the environment names."""
    _print_to_worker_log()
    sys.modules.pop("prefect.engine", None)  # else runpy warns that it is imported
    _end_in_the_state_of_the_flow()
    runpy.run_module("prefect.engine", run_name="__main__", alter_sys=True)


def _print_to_worker_log() -> None:
    """Redirect stdout and stderr to the worker's log.

    The worker reads what its runs print through pipes. When the worker dies, a run that prints to
    a broken pipe would end; a run must outlive its worker.
    """
    log = worker_daemon(load_settings(), "").log
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as file:
        for stream in (sys.stdout, sys.stderr):
            os.dup2(file.fileno(), stream.fileno())


def _end_in_the_state_of_the_flow() -> None:
    """Make Prefect's engine take the state that a flow returns, instead of raising its exception.

    A flow of ours that returns `Failed` has given the reason in one line. Prefect would raise the
    exception in it and log a traceback. What a flow itself raises is logged before this.
    """
    from prefect import Flow, flow_engine

    run_flow: Callable[..., object] = flow_engine.run_flow

    def return_state(flow: Flow[..., object], **arguments: object) -> object:
        if not flow.isgenerator:
            arguments = {"return_type": "state", **arguments}
        return run_flow(flow, **arguments)

    vars(flow_engine)["run_flow"] = return_state


if __name__ == "__main__":
    main()
