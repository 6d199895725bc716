"""What does one run: Prefect's engine, which outlives the worker.

A worker reads what its runs print. When it dies nobody does, and Prefect ends a run that
prints to nobody; so runs print into the worker's log themselves.
"""

import os
import runpy
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from importlib import import_module

from contracts.errors import SettingsInvalid
from flows.config.environment import environment
from flows.config.memory import load_memory_settings
from flows.config.policy import load_policy_settings
from flows.config.settings import load_settings
from flows.host.run_process import FORK_SERVER
from flows.runs import checkpoint, report
from flows.services.prefect_client import use_server
from flows.services.worker import worker_daemon

_NEEDED = (
    "prefect.flow_engine", "prefect.task_engine", "prefect.deployments.steps", "prefect.runner",
    "anyio._backends._asyncio", "rich._emoji_codes", "graphviz",
    "flows.deployed", "flows.approve",
    "flows.recall.curation", "flows.recall.library", "flows.services.embed",
    "memory.curation.curate", "memory.notes.notebook",
    "memory.playbooks.learn", "memory.playbooks.library", "memory.playbooks.recall",
    "docker",
)  # fmt: skip
"""What a run would import, each without a thread, a connection or a look at the settings."""


def get_ready() -> None:
    """Import, make and read what every run needs."""
    for name in _NEEDED:
        import_module(name)
    for make in (report.adapter, checkpoint.adapter):
        make()
    with suppress(SettingsInvalid):  # a run tells; it reads them anew where they have changed
        for load in (load_settings, load_memory_settings, load_policy_settings):
            load()


def main() -> None:
    """Do the flow run that the environment names."""
    log = worker_daemon(load_settings(), "").log
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as said:
        for stream in (sys.stdout, sys.stderr):
            os.dup2(said.fileno(), stream.fileno())
    sys.modules.pop("prefect.engine", None)  # what is there already, runpy warns of
    _end_in_their_state()
    with _beating_themselves():
        runpy.run_module("prefect.engine", run_name="__main__", alter_sys=True)


def _end_in_their_state() -> None:
    """A flow that gave its state has told why: Prefect would raise it and log that, as a crash.

    What a flow itself raises is logged, with its traceback, before it comes to this.
    """
    from prefect import Flow, flow_engine

    run_flow: Callable[..., object] = flow_engine.run_flow

    def to_its_state(flow: Flow[..., object], **how: object) -> object:
        gives = {} if flow.isgenerator else {"return_type": "state"}
        return run_flow(flow, **{**gives, **how})

    vars(flow_engine)["run_flow"] = to_its_state


def beats_itself(flow: str) -> bool:
    """Whether it is a flow of ours that tells that it lives; all others leave that to Prefect."""
    from prefect import Flow

    from flows import approve, deployed

    ours = (*vars(deployed).values(), *vars(approve).values())
    return any(isinstance(one, Flow) and one.name == flow for one in ours)


def _beating_themselves() -> AbstractContextManager[None]:
    """No heartbeat of Prefect's where a worker does runs: theirs would end a second later."""
    variables = environment()
    if FORK_SERVER not in variables or "PREFECT_API_URL" not in variables:
        return nullcontext()
    if not beats_itself(variables.get("PREFECT__FLOW_NAME", "")):
        return nullcontext()
    return use_server(variables["PREFECT_API_URL"])


if __name__ == "__main__":
    main()
