"""Writes the report of a run whose process was killed, and records reports that memory lacks."""

import logging
from collections.abc import Callable
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
from flows.execution.rounds import with_rounds
from flows.execution.run_state import RunState, UnrecordedRun, failure_reason, status_for_error
from flows.execution.wiring import build_dependencies, docker_engine, sandbox_owner
from flows.recall.playbooks import MemoryUnavailable
from flows.runs import checkpoint
from flows.runs.checkpoint import Checkpoint, StartPoint
from flows.runs.home import CHECKPOINT, KEPT, UNRECORDED
from flows.runs.request import FlowRun, ResolvedRequest
from flows.runs.run_record import (
    RunRecord,
    read_record,
    recorded_request,
    request_for,
    run_lock,
)
from flows.runs.runs import (
    State,
    has_run_exited,
    list_runs,
    load_report,
    read_entry,
    save_report,
    try_read_record,
)
from nodes.commands import command
from nodes.types import Node
from sandbox.reap import reap
from sandbox.redaction import redact_url

_log = logging.getLogger(__name__)

NEWEST = 200
"""Number of newest runs that are checked."""

if TYPE_CHECKING:
    from prefect import State as PrefectState
    from prefect.client.schemas import FlowRun as PrefectRun


def reconcile_flow_run(flow: object, flow_run: "PrefectRun", state: "PrefectState") -> None:  # noqa: ARG001 - Prefect's signature of a hook
    """Prefect hook for a flow run that was cancelled or has crashed. The worker calls it.

    A run whose own process wrote its report is left unchanged.
    """
    # Imports Prefect, which `harness runs cancel` does not need.
    from flows.execution.end_state import crash_open_tasks

    settings, run_id = load_settings(), str(flow_run.id)[-8:]
    dependencies = build_dependencies(settings)
    record_late(dependencies)
    record = try_read_record(dependencies.runs / run_id)
    if record is not None and record.flow_run_id != str(flow_run.id):
        return  # the record belongs to another flow run whose id has the same end
    why = (
        KeyboardInterrupt() if state.is_cancelling() else Unavailable(_death_reason(state.message))
    )
    if reconcile_run(dependencies, run_id, why) is None:
        return
    with suppress(Unavailable):  # Docker is unavailable: containers are reaped later
        reap(docker_engine(), sandbox_owner(settings))
    crash_open_tasks(flow_run.id, state.message)


def reconcile_lost_runs(dependencies: RunDependencies) -> int:
    """Report the newest runs whose process was killed; return how many were reported or recorded.

    Needed for runs of the command line, which have no worker. A run that died after its report is
    only recorded in memory.
    """
    late = record_late(dependencies)
    lost = [
        entry.run_id
        for entry in list_runs(dependencies.runs, limit=NEWEST)
        if entry.state == "lost"
    ]
    why = Unavailable(_death_reason(None))
    return late + sum(
        _attempt(run_id, lambda run: reconcile_run(dependencies, run, why) is not None)
        for run_id in lost
    )


def record_late(dependencies: RunDependencies) -> int:
    """Record the marked reports in memory; return how many. Recording one twice has no effect.

    A report that cannot be recorded keeps its mark for the next call.
    """
    marked = [path.parent for path in dependencies.runs.glob(f"*/{UNRECORDED}")]
    return sum(
        _attempt(own.name, lambda run: _record(dependencies, dependencies.runs / run))
        for own in marked
        if (record := try_read_record(own)) is not None and has_run_exited(own, record)
    )


def _record(dependencies: RunDependencies, own: Path) -> bool:
    with run_lock(dependencies.runs, own.name):
        report = load_report(own)
        if report is None or not (own / UNRECORDED).is_file():
            return False
        marked = UnrecordedRun.model_validate_json((own / UNRECORDED).read_bytes())
        if isinstance(dependencies.memory.record(report, marked.verdict_later), MemoryUnavailable):
            return False
        if marked.keeps:
            with suppress(FileNotFoundError):
                (own / CHECKPOINT).replace(own / KEPT)
        elif marked.over:
            (own / CHECKPOINT).unlink(missing_ok=True)
            dependencies.remove_snapshots(own.name, ())
        (own / UNRECORDED).unlink(missing_ok=True)
        return True


def _attempt(run_id: str, repair: Callable[[str], bool]) -> bool:
    """Repair one run; an error is logged, so that one damaged run holds up no other."""
    try:
        return repair(run_id)
    except (RunNotResumable, RunNotFound):  # executed by another process, or gone
        return False
    except HarnessError as error:
        _log.warning("run %s cannot be brought up to date yet: %s", run_id, error)
        return False
    except Exception:  # noqa: BLE001 - a door: one damaged run holds up no other
        _log.exception("run %s could not be brought up to date", run_id)
        return False


def reconcile_run(
    dependencies: RunDependencies, run_id: str, why: BaseException, *, of: State = "lost"
) -> RunReport | None:
    """Write the report of a run whose process is gone; return None if the state is not `of`.

    Finished nodes stay finished and the run can be resumed, except a run that waited for a person
    and has no pull request.
    """
    try:
        record = read_record(dependencies.runs / run_id)
        if record is None or read_entry(dependencies.runs, run_id).state != of:
            return None
        with run_lock(dependencies.runs, run_id):
            if read_entry(dependencies.runs, run_id).state != of:
                return None
            return _report_dead_run(dependencies, record, why, is_abandoned=of == "waiting")
    except (RunNotResumable, RunNotFound):  # executed by another process, gone, or damaged
        return None


def _report_dead_run(
    dependencies: RunDependencies, record: RunRecord, why: BaseException, *, is_abandoned: bool
) -> RunReport | None:
    run_id, folder = record.run_id, dependencies.runs / record.run_id
    start = checkpoint.read(folder, record.repo)
    if start is None:
        return _finish_queued(dependencies, record, why) if record.queued else None
    request = with_rounds(_request(record), start)
    flow_run = FlowRun(record.flow_run_id, "") if record.flow_run_id else None
    with dependencies.open_event_log() as append, dependencies.open_notes() as notes:
        known = StartPoint(checkpoint.resume_checkpoint(start), resumed=True)
        run = RunState(request, known, folder, run_id, flow_run, dependencies, append, notes)
        run.checkpoints.current = start  # without the line "went on": the run has only stopped
        run.is_abandoned = is_abandoned and start.pull is None
        run.ctx = _finished_nodes(request, start, run_id)
        return run.finish(why)


def _finish_queued(
    dependencies: RunDependencies, record: RunRecord, error: BaseException
) -> RunReport:
    """Save and return the report of a run that ended in the queue; resuming it starts it."""
    status = status_for_error(error)
    reason = "it was cancelled before it began" if status == "cancelled" else failure_reason(error)
    report = RunReport(
        run_id=record.run_id,
        blueprint=record.name,
        status=status,
        flow_run_id=record.flow_run_id,
        repo=redact_url(record.repo),
        intent=record.intent,
        agent=record.agent,
        model=record.model,
        started_at=record.started_at,
        notices=(f"`harness runs resume {record.run_id}` starts it",),
        error=dependencies.redact(reason),
    )
    save_report(dependencies.runs / record.run_id, report, "")
    return report


def _request(record: RunRecord) -> ResolvedRequest:
    """Return the recorded request. If the blueprint cannot be loaded, use empty nodes with its
    names."""
    try:
        with chdir(Path.cwd()):  # the worker's process must keep its directory
            return recorded_request(record)
    except RunNotResumable:
        nodes = [deterministic(name, "", command("false")) for name in record.nodes]
        return request_for(record, Blueprint(name=record.name, description="", nodes=nodes))


def _finished_nodes(request: ResolvedRequest, start: Checkpoint, run_id: str) -> RunContext:
    def known(node: Node, _: RunContext) -> NodeResult:
        return start.results[node.name]

    finished = (node for node in request.definition.nodes if node.name in start.results)
    ctx = RunContext(run_id=run_id, work_dir="")
    return replace(run_nodes(finished, ctx, known), repo=request.repo)


def _death_reason(message: str | None) -> str:
    return f"the run's process died: {message or 'reason unknown'}"
