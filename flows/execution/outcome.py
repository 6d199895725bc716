"""Builds the report of a run from its parts, and logs its network access."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from blueprints.report import build_report, exception_reports
from contracts.errors import HarnessError
from contracts.run import RunContext, RunReport, RunStatus, SurfacedMemory
from flows.execution.delivery import Delivery
from flows.execution.pending_approvals import PendingApprovals
from flows.runs.checkpoints import Checkpoints
from flows.runs.layout import TRAJECTORY
from flows.runs.model_calls import total_usage
from flows.runs.request import FlowRun, ResolvedRequest
from nodes.node_errors import describe_node_error, failed_node_durations
from nodes.text import Redact
from sandbox.egress import EgressEvent
from sandbox.git import redact_url


@dataclass(frozen=True, kw_only=True)
class Interruption:
    """Why a run ended before its nodes did, and whether it can be resumed.

    If a node raised an exception, `blamed_line` says where, and `raised_in` maps that node and the
    nodes around it to their durations in milliseconds.
    """

    status: RunStatus
    reason: str
    resumable: bool
    blamed_line: str = ""
    raised_in: Mapping[str, int] = field(default_factory=dict)


def status_for_error(error: BaseException) -> RunStatus:
    """Return "failure" for an exception, "cancelled" for Ctrl-C or a signal."""
    return "failure" if isinstance(error, Exception) else "cancelled"


def failure_reason(error: BaseException) -> str:
    """Return one line that says what ended the run."""
    if not isinstance(error, Exception):
        text = str(error) if isinstance(error, KeyboardInterrupt) else ""
        return text or "it was cancelled"
    if isinstance(error, HarnessError):
        return str(error)
    return describe_node_error(error) or f"{type(error).__name__}: {error}".rstrip(": ")


def interruption_by(error: BaseException, *, resumable: bool, redact: Redact) -> Interruption:
    """Describe a run that `error` ended, without secrets."""
    return Interruption(
        status=status_for_error(error),
        reason=redact(failure_reason(error)),
        resumable=resumable,
        blamed_line=redact(describe_node_error(error) or ""),
        raised_in=failed_node_durations(error),
    )


MAX_NOTICES = 20


MAX_EVENTS = 10_000
"""Decisions that are logged. The last line says that more were made."""


class EgressLog:
    """Appends each decision to `egress.jsonl`; refused hosts become notices in the report."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._refused: dict[str, str] = {}
        self._count = 0

    def __call__(self, event: EgressEvent) -> None:
        self._count += 1
        if self._count > MAX_EVENTS:
            return
        with self._path.open("a") as file:
            last = {"more": "not written"} if self._count == MAX_EVENTS else {}
            file.write(json.dumps(asdict(event) | last) + "\n")
        if event.kind == "refused":
            self._refused[f"{event.host}:{event.port}"] = event.reason

    @property
    def notices(self) -> tuple[str, ...]:
        """One line for each of the first twenty refused hosts."""
        refused = list(self._refused.items())[:MAX_NOTICES]
        return tuple(f"no network access to {place}: {reason}" for place, reason in refused)


@dataclass(frozen=True, kw_only=True)
class RunFacts:
    """The parts of a run that its report is built from."""

    request: ResolvedRequest
    ctx: RunContext
    folder: Path
    """The folder of this run, `runs/<run id>`."""
    checkpoints: Checkpoints
    delivery: Delivery
    pending_approvals: PendingApprovals
    egress: EgressLog
    flow_run: FlowRun | None
    started_at: str

    @property
    def verdict(self) -> RunReport:
        """Report with the outcome of the nodes only."""
        took = self.checkpoints.elapsed_ms
        return build_report(self.request.definition, self.ctx, total_duration_ms=took)

    @property
    def status(self) -> RunStatus:
        """Status of a run whose nodes have finished."""
        if self.pending_approvals.refused is not None:
            return "failure"
        status = self.verdict.status
        return "waiting" if status == "success" and self.pending_approvals.is_waiting else status


def run_report(
    known: RunFacts, surfaced: SurfacedMemory, stopped: Interruption | None
) -> RunReport:
    """Build the report from what is known now; `stopped` is None if all nodes finished."""
    verdict, request, work = known.verdict, known.request, known.delivery.work
    usage = total_usage(known.folder / TRAJECTORY) or verdict.token_usage
    nodes = request.definition.nodes
    raised = exception_reports(nodes, stopped.raised_in, stopped.blamed_line) if stopped else ()
    failed_by = raised[0].name if raised else None
    return replace(
        verdict,
        nodes=(*verdict.nodes, *raised),
        token_usage=usage,
        cost_usd=usage.cost_usd,
        status=stopped.status if stopped else known.status,
        failed_node=failed_by
        if stopped or known.pending_approvals.is_waiting
        else verdict.failed_node,
        error=stopped.reason if stopped else verdict.error or known.pending_approvals.refused,
        flow_run_id=known.flow_run.id if known.flow_run else None,
        flow_run_url=known.flow_run.url if known.flow_run else None,
        repo=redact_url(request.repo),
        intent=request.intent,
        agent=request.agent,
        model=request.model,
        base_commit=known.checkpoints.current.base.commit,
        branch=work.branch if work else None,
        commit=work.commit if work else None,
        diff_stat=work.diff_stat if work else verdict.diff_stat,
        pushed=known.delivery.pushed,
        pull_request=known.delivery.pull_request,
        surfaced=surfaced,
        started_at=known.started_at,
        notices=tuple(_notices(known, stopped)),
    )


def _notices(known: RunFacts, stopped: Interruption | None) -> Iterator[str]:
    now, work = known.checkpoints.current, known.delivery.work
    for when in now.went_on:
        yield f"resumed {when}; finished nodes are not run again"
    if stopped and stopped.resumable:
        again = f"`harness runs resume {known.ctx.run_id}` continues it"
        yield f"the run stopped before its last node: {again}"
    suspends = known.flow_run is not None and known.flow_run.suspends
    yield from known.pending_approvals.notices(suspends=suspends)
    for branch in now.lost:
        yield f"the work of an agent that lost is in {now.base.bare}, branch {branch}"
    yield from now.notices
    yield from now.base.notices
    yield from work.notices if work else ()
    yield from known.egress.notices
    yield from known.delivery.notices
