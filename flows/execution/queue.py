"""A run that waits for its turn: known meanwhile, and reported when it ends before it began."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from contracts.run import RunReport
from flows.execution.dependencies import RunDependencies
from flows.execution.finalize import failure_reason, status_for_error
from flows.runs.lock import queue_lock, run_lock
from flows.runs.request import FlowRun, ResolvedRequest
from flows.runs.resume import check_same_nodes
from flows.runs.run_record import RunRecord, read_record, write_record
from flows.runs.runs import save_report
from sandbox.redaction import redact_url


def record_queued(runs: Path, run_id: str, request: ResolvedRequest, flow_run: FlowRun) -> None:
    """Note that this process does the run when its turn comes.

    Raises:
        RunNotResumable: another process is doing it, or its blueprint has other nodes now.
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
    """The same, and seen to wait until the block ends.

    Raises:
        RunNotResumable: as `queue`.
    """
    record_queued(runs, run_id, request, flow_run)
    with queue_lock(runs / run_id):
        yield


def finish_queued(tools: RunDependencies, asked: RunRecord, why: BaseException) -> RunReport:
    """Report a run that ended before it began. It can still be gone on with, which begins it."""
    status = status_for_error(why)
    error = "it was cancelled before it began" if status == "cancelled" else failure_reason(why)
    report = RunReport(
        run_id=asked.run_id,
        blueprint=asked.name,
        status=status,
        flow_run_id=asked.flow_run_id,
        repo=redact_url(asked.repo),
        intent=asked.intent,
        agent=asked.agent,
        model=asked.model,
        started_at=asked.started_at,
        notices=(f"`harness runs resume {asked.run_id}` begins it",),
        error=tools.redact(error),
    )
    save_report(tools.runs / asked.run_id, report, "")
    return report
