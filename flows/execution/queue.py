"""Runs that wait for a concurrency slot: recorded while they wait, reported if cancelled there."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from contracts.run import RunReport
from flows.execution.dependencies import RunDependencies
from flows.execution.outcome import failure_reason, status_for_error
from flows.runs.lock import queue_lock, run_lock
from flows.runs.request import FlowRun, ResolvedRequest
from flows.runs.resume import check_same_nodes
from flows.runs.run_record import RunRecord, read_record, write_record
from flows.runs.runs import save_report
from sandbox.git import redact_url


def record_queued(runs: Path, run_id: str, request: ResolvedRequest, flow_run: FlowRun) -> None:
    """Record that this process will execute the run once a slot is free.

    Raises:
        RunNotResumable: another process executes it, or its blueprint has other nodes now.
    """
    with run_lock(runs, run_id):
        known = read_record(runs / run_id)
        if known is not None:
            check_same_nodes(known, request.definition)
        write_record(runs, run_id, request, flow_run, queued=True)


@contextmanager
def waiting_in_queue(
    runs: Path, run_id: str, request: ResolvedRequest, flow_run: FlowRun
) -> Iterator[None]:
    """Record the run as queued, and hold its queue lock until the block ends.

    Raises:
        RunNotResumable: as `record_queued`.
    """
    record_queued(runs, run_id, request, flow_run)
    with queue_lock(runs / run_id):
        yield


def finish_queued(
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
