"""Writes the report of a run whose process was killed."""

import logging
from contextlib import chdir, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from blueprints.dsl import deterministic
from blueprints.engine import run_nodes
from blueprints.types import Blueprint
from contracts.errors import HarnessError, RunNotFound, RunNotResumable, Unavailable
from contracts.run import NodeResult, RunContext, RunReport
from flows.config.settings import load_settings
from flows.execution.dependencies import RunDependencies
from flows.execution.queue import finish_queued
from flows.execution.run_state import RunState
from flows.execution.unrecorded import record_late
from flows.execution.wiring import build_dependencies, docker_engine, sandbox_owner
from flows.runs import checkpoint
from flows.runs.checkpoint import Checkpoint, StartPoint
from flows.runs.lock import run_lock
from flows.runs.request import FlowRun, ResolvedRequest
from flows.runs.resume import recorded_request, request_for
from flows.runs.run_record import RunRecord, read_record
from flows.runs.runs import State, list_runs, read_entry, try_read_record
from nodes.commands import command
from nodes.types import Node
from sandbox.reap import reap

_log = logging.getLogger(__name__)

NEWEST = 200
"""Number of newest runs that are checked."""

if TYPE_CHECKING:
    from uuid import UUID

    from prefect import State as PrefectState
    from prefect.client.schemas import FlowRun as PrefectRun


def reconcile_flow_run(flow: object, flow_run: "PrefectRun", state: "PrefectState") -> None:  # noqa: ARG001 - Prefect's signature of a hook
    """Prefect hook for a flow run that was cancelled or has crashed. The worker calls it.

    A run whose own process wrote its report is left unchanged.
    """
    settings, run_id = load_settings(), str(flow_run.id)[-8:]
    tools = build_dependencies(settings)
    record_late(tools)
    asked = try_read_record(tools.runs / run_id)
    if asked is not None and asked.flow_run_id != str(flow_run.id):
        return  # another run, whose id ends alike
    why = KeyboardInterrupt() if state.is_cancelling() else Unavailable(_died(state.message))
    if reconcile_run(tools, run_id, why) is None:
        return
    with suppress(Unavailable):  # the engine is away: what is left in it is reaped later
        reap(docker_engine(), sandbox_owner(settings))
    crash_open_tasks(flow_run.id, state.message)


def reconcile_lost_runs(tools: RunDependencies) -> int:
    """Report the newest runs whose process was killed; return how many were reported or recorded.

    Needed for runs of the command line, which have no worker. A run that died after its report is
    only recorded in memory.
    """
    late = record_late(tools)
    lost = [entry.run_id for entry in list_runs(tools.runs, limit=NEWEST) if entry.state == "lost"]
    return late + sum(_is_settled(tools, run_id) for run_id in lost)


def _is_settled(tools: RunDependencies, run_id: str) -> bool:
    try:
        return reconcile_run(tools, run_id, Unavailable(_died(None))) is not None
    except HarnessError as error:  # the others are settled all the same
        _log.warning("run %s is not settled yet: %s", run_id, error)
        return False
    except Exception:  # noqa: BLE001 - a door: one damaged run holds up no other
        _log.exception("run %s could not be settled", run_id)
        return False


def crash_open_tasks(flow_run_id: "UUID", message: str | None) -> None:
    """Set the running task runs of this flow run to Crashed."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas import filters
    from prefect.client.schemas.objects import StateType
    from prefect.states import Crashed

    running = filters.TaskRunFilterStateType(any_=[StateType.RUNNING])
    with get_client(sync_client=True) as client:
        for task in client.read_task_runs(
            flow_run_filter=filters.FlowRunFilter(id=filters.FlowRunFilterId(any_=[flow_run_id])),
            task_run_filter=filters.TaskRunFilter(state=filters.TaskRunFilterState(type=running)),
        ):
            client.set_task_run_state(task.id, Crashed(message=message), force=True)


def reconcile_run(
    tools: RunDependencies, run_id: str, why: BaseException, *, of: State = "lost"
) -> RunReport | None:
    """Write the report of a run whose process is gone; return None if the state is not `of`.

    Finished nodes stay finished and the run can be resumed, except a run that waited for a person.
    """
    try:
        asked = read_record(tools.runs / run_id)
        if asked is None or read_entry(tools.runs, run_id).state != of:
            return None
        with run_lock(tools.runs, run_id):
            if read_entry(tools.runs, run_id).state != of:
                return None
            return _settled(tools, asked, why, is_abandoned=of == "waiting")
    except (RunNotResumable, RunNotFound):  # another process does it, or it is gone or damaged
        return None


def _settled(
    tools: RunDependencies, asked: RunRecord, why: BaseException, *, is_abandoned: bool
) -> RunReport | None:
    run_id, folder = asked.run_id, tools.runs / asked.run_id
    start = checkpoint.read(folder, asked.repo)
    if start is None:
        return finish_queued(tools, asked, why) if asked.queued else None
    request = _request(asked)
    flow_run = FlowRun(asked.flow_run_id, "") if asked.flow_run_id else None
    with tools.open_event_log() as append, tools.open_notes() as notes:
        known = StartPoint(checkpoint.resume_checkpoint(start), resumed=True)
        run = RunState(request, known, folder, run_id, flow_run, tools, append, notes)
        run.checkpoints.current = start  # without the line "went on": the run has only stopped
        run.is_abandoned = is_abandoned
        run.ctx = _finished_nodes(request, start, run_id)
        return run.finish(why)


def _request(asked: RunRecord) -> ResolvedRequest:
    """Return the recorded request. If the blueprint cannot be loaded, use empty nodes with its
    names."""
    try:
        with chdir(Path.cwd()):  # the worker's process goes on
            return recorded_request(asked)
    except RunNotResumable:
        nodes = [deterministic(name, "", command("false")) for name in asked.nodes]
        return request_for(asked, Blueprint(name=asked.name, description="", nodes=nodes))


def _finished_nodes(request: ResolvedRequest, start: Checkpoint, run_id: str) -> RunContext:
    def known(node: Node, _: RunContext) -> NodeResult:
        return start.results[node.name]

    finished = (node for node in request.definition.nodes if node.name in start.results)
    ctx = RunContext(run_id=run_id, work_dir="")
    return replace(run_nodes(finished, ctx, known), repo=request.repo)


def _died(message: str | None) -> str:
    return f"the run's process died: {message or 'nobody knows why'}"
