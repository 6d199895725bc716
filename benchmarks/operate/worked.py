"""Runs that the worker does, as the server's records tell them."""

import sys
from collections.abc import Mapping
from datetime import datetime
from shutil import copy
from time import monotonic, sleep
from typing import NamedTuple
from uuid import UUID

import httpx
from prefect.client.schemas.objects import TERMINAL_STATES

from benchmarks.chaos.stage import Stage
from benchmarks.operate import bare
from flows.services.deploy import WORK_POOL
from flows.services.prefect_server import prefect_client

NOTHING = "operate/blueprints.py:nothing"
NAPS = "operate/blueprints.py:naps"
WAITS = "operate/blueprints.py:waits"

FIRST = "first"
"""The name of the first task of every run here."""

PATIENCE_S = 3600.0
ALL_LOOK_S = 2.0


OWN_WAY: Mapping[str, object] = {"command": None}
"""Job variables of a deployment whose runs Prefect starts as it always does, a process each."""


class Worked(NamedTuple):
    """When the worker took a run, when its first task began, and when it was over."""

    state: str
    claimed: datetime
    first: datetime
    over: datetime

    @property
    def start_s(self) -> float:
        """What it took to begin."""
        return (self.first - self.claimed).total_seconds()


def deployed_bare(made: Stage, api: str, name: str, job: Mapping[str, object]) -> UUID:
    """A deployment of the baseline for the household's worker."""
    copy(bare.__file__, made.place / "bare.py")
    step = {"prefect.deployments.steps.set_working_directory": {"directory": str(made.place)}}
    with prefect_client(api) as client:
        flow = client.create_flow_from_name("bare")
        return client.create_deployment(
            flow_id=flow,
            name=name,
            entrypoint="bare.py:bare",
            work_pool_name=WORK_POOL,
            pull_steps=[step],
            job_variables=dict(job),
        )


def start(api: str, deployment: UUID, parameters: Mapping[str, object]) -> UUID:
    """Ask for a run."""
    with prefect_client(api) as client:
        return client.create_flow_run_from_deployment(deployment, parameters=dict(parameters)).id


def all_worked(api: str, deployment: UUID, size: int) -> None:
    """Wait until so many runs of the deployment are over; asked seldom, for all are in a hurry."""
    over = {"state": {"type": {"any_": [state.value for state in TERMINAL_STATES]}}}
    asked = {"deployments": {"id": {"any_": [str(deployment)]}}, "flow_runs": over}
    give_up = monotonic() + PATIENCE_S
    with httpx.Client(base_url=api, timeout=60) as server:
        while monotonic() < give_up:
            done = server.post("/flow_runs/count", json=asked).raise_for_status().json()
            print(f"  {done} of {size}", file=sys.stderr, flush=True)
            if done >= size:
                return
            sleep(ALL_LOOK_S)
    raise TimeoutError(f"{size} flow runs did not end within {PATIENCE_S:g} s")


def deployment_id(api: str, name: str) -> UUID:
    """The id of one of our deployments."""
    with prefect_client(api) as client:
        return client.read_deployment_by_name(f"{name}/{name}").id


def worked(api: str, run: UUID) -> Worked:
    """Wait for the end of a run; when it did what."""
    from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId

    give_up = monotonic() + PATIENCE_S
    with prefect_client(api) as client:
        while monotonic() < give_up:
            states = sorted(client.read_flow_run_states(run), key=lambda state: state.timestamp)
            only = FlowRunFilter(id=FlowRunFilterId(any_=[run]))
            tasks = {task.name: task for task in client.read_task_runs(flow_run_filter=only)}
            first = next((t.start_time for n, t in tasks.items() if n.startswith(FIRST)), None)
            if states and states[-1].is_final() and first is not None:
                claimed = next(state for state in states if state.is_pending())
                return Worked(states[-1].type.value, claimed.timestamp, first, states[-1].timestamp)
            sleep(0.5)
    raise TimeoutError(f"flow run {run} did not end within {PATIENCE_S:g} s")
