"""State of a run while it executes, and its report. `RunState.finish` records its end."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from pydantic import BaseModel

from blueprints.report import build_report, exception_reports
from contracts.errors import GitFailed, HarnessError, Unavailable
from contracts.run import RunContext, RunReport, RunStatus, SurfacedMemory
from flows.audit.event_log import AppendEvents
from flows.audit.run_events import RunEvents
from flows.execution.delivery import Delivery
from flows.execution.dependencies import RunDependencies
from flows.execution.outputs import RunOutputs
from flows.execution.pull_request_loop import PullRequestLoop
from flows.execution.sandboxes import EgressLog
from flows.execution.work_check import PendingApprovals
from flows.recall.notes import RunNotes
from flows.recall.playbooks import MemoryUnavailable
from flows.runs.checkpoint import StartPoint, UsedBudget
from flows.runs.checkpoints import Checkpoints
from flows.runs.home import EGRESS, TRAJECTORY, UNRECORDED, write_in_home
from flows.runs.report import fallback_notices, total_usage
from flows.runs.request import FlowRun, ResolvedRequest
from flows.runs.run_record import read_record
from flows.runs.runs import save_report
from nodes.node_errors import describe_node_error, failed_node_durations
from policy.errors import LogDamaged
from sandbox.redaction import redact_url


class UnrecordedRun(BaseModel):
    """Data that memory needs besides the report; `over` if the run cannot be resumed.

    `keeps`: a comment on its pull request may continue it even so.
    """

    verdict_later: bool
    over: bool
    keeps: bool = False


class RunState:
    """The parts of one run: checkpoints, delivery, approvals, events. `finish` records its end."""

    def __init__(
        self,
        request: ResolvedRequest,
        start: StartPoint,
        folder: Path,
        run_id: str,
        flow_run: FlowRun | None,
        dependencies: RunDependencies,
        append: AppendEvents,
        notes: RunNotes,
    ) -> None:
        self.ctx = RunContext(run_id=run_id, work_dir="")
        self.folder = folder
        self.notes = notes
        self.is_abandoned = False
        """True if the run cannot be resumed after `finish`."""
        self.checkpoints = Checkpoints(
            folder,
            start.checkpoint,
            ttl_s=dependencies.snapshot_ttl_s,
            forget=lambda keep: dependencies.remove_snapshots(run_id, keep),
        )
        bounds = dependencies.bounds(request)
        self.delivery = Delivery(request, run_id, self.checkpoints, dependencies)
        self.pending_approvals = PendingApprovals(
            request,
            run_id,
            start.checkpoint.base,
            self.delivery,
            bounds,
            dependencies.open_approvals,
        )
        self.loop = PullRequestLoop(request, self.checkpoints, self.delivery, folder, dependencies)
        self.outputs = RunOutputs(
            request, self.checkpoints, self.delivery, dependencies, folder, bounds
        )
        self.egress = EgressLog(folder / EGRESS)
        self.events = RunEvents(
            append,
            request,
            run_id=run_id,
            start=start,
            folder=folder,
            redact=dependencies.redact,
            bounds=bounds,
        )
        self._request = request
        self._start = start
        self._flow_run = flow_run
        self._dependencies = dependencies
        self._playbooks: tuple[str, ...] = ()  # ids, shown by this process
        record = read_record(folder)
        self._started_at = record.started_at if record else ""

    @property
    def used_budget(self) -> UsedBudget:
        """Budget used by the agents so far, including calls whose results were lost."""
        saved = self.checkpoints.current.used
        spent = total_usage(self.folder / TRAJECTORY)
        if spent is None:
            return saved
        return saved._replace(cost_usd=spent.cost_usd, tokens=spent.total)

    def recall(self) -> str:
        """Return the text that memory adds to agents' prompts; empty if no agent works.

        After a resume it also says what a person decided about the agents' actions.
        """
        if not self._request.agentic_nodes:
            return ""
        task = self._request.intent or self._request.definition.description
        found = self._dependencies.memory.surface(self.ctx.run_id, task)
        self._playbooks = found.shown
        self.events.memory_shown(found)
        decisions = self.pending_approvals.decisions_text() if self._start.resumed else ""
        return "\n\n".join(filter(None, (found.text, decisions)))

    def node_finished(self, ctx: RunContext) -> None:
        """Take the results so far and write the events of the node that has just finished."""
        self.ctx = ctx
        self.events.node_finished(ctx, self.checkpoints.current.files)

    def load_approvals(self) -> None:
        """Load the approvals that are pending after the last node, also those of the work."""
        self.pending_approvals.load(only_ends=self._start.checkpoint.ended is not None)

    def push_if_asked(self) -> None:
        """Push the work if the user asked for it, or an agent proposed its pull request, and the
        run succeeded with no pending approval."""
        proposed = self.outputs.pull_request(self.ctx.results)
        is_wanted = self._request.push or proposed or self.checkpoints.current.pull is not None
        if not is_wanted or self._report().status != "success":
            return
        self.loop.check_merge()
        if self.loop.error is None:
            try:
                self.delivery.push(self._report, proposed)
            except GitFailed as error:
                if not self.loop.is_answering:
                    raise
                self.loop.error = f"the branch could not be pushed: {error}"

    def deliver_outputs(self) -> None:
        """Do what the agents proposed, if the run succeeded with no pending approval."""
        if self._report().status == "success":
            self.outputs.deliver(self.ctx, self.events)

    def follow_pull_request(self) -> None:
        """Look at comments and checks of the pull request; write the report into its comment."""
        report = self._report()
        if report.status == "success":
            self.loop.look()
        elif report.status == "failure":
            self.loop.end_answer(report.error or "")
        self.loop.comment(self._report())

    def finish(self, error: BaseException | None = None) -> RunReport:
        """Record the end: events, report, memory, checkpoint, in this order. Return the report.

        `error` is what stopped the run before its nodes finished.

        Raises:
            Unavailable, LogDamaged: the event log lacks this run's end, and `error` is None.
        """
        report, outage = self._write_events(self._report(error))
        waits = self.pending_approvals.is_waiting or self.loop.goes_on
        is_over = self.is_abandoned or (error is None and not waits)
        verdict_later = self._request.definition.verdict_later
        # A process that dies below leaves this mark or the checkpoint, and a later one goes on.
        keeps = is_over and not self.is_abandoned and self.loop.may_go_on
        mark_unrecorded(
            self.folder, UnrecordedRun(verdict_later=verdict_later, over=is_over, keeps=keeps)
        )
        work = self.delivery.work
        save_report(self.folder, report, work.diff if work else "")
        recorded = self._dependencies.memory.record(report, verdict_later)
        if error is None and self.notes.is_worth_curating(report):
            self.notes.curate(report.run_id)
        if keeps:
            self.checkpoints.keep()
        elif is_over:
            self.checkpoints.drop()
        if not isinstance(recorded, MemoryUnavailable):
            (self.folder / UNRECORDED).unlink(missing_ok=True)
        if outage is not None and error is None:
            raise outage
        return report

    def _write_events(self, report: RunReport) -> tuple[RunReport, HarnessError | None]:
        """Write the run's end into the event log; if that fails, add a notice to the report."""
        try:
            self.events.run_finished(report)
        except (Unavailable, LogDamaged) as outage:
            notice = f"the event log does not hold all of this run: {outage}"
            return replace(report, notices=(*report.notices, notice)), outage
        return report, None

    def _report(self, error: BaseException | None = None) -> RunReport:
        """Build the report from what is known now; `error` stopped the run before its last node."""
        request, work, approvals = self._request, self.delivery.work, self.pending_approvals
        now = self.checkpoints.current
        report = build_report(
            request.definition, self.ctx, total_duration_ms=self.checkpoints.elapsed_ms
        )
        if error is not None:
            redact = self._dependencies.redact
            raised = exception_reports(
                request.definition.nodes,
                failed_node_durations(error),
                redact(describe_node_error(error) or ""),
            )
            report = replace(
                report,
                nodes=(*report.nodes, *raised),
                failed_node=raised[0].name if raised else None,
                status=status_for_error(error),
                error=redact(failure_reason(error)),
            )
        elif approvals.refused is not None:
            report = replace(report, status="failure", error=report.error or approvals.refused)
        elif approvals.is_waiting:
            # A node that fails for lack of an approval is not the one that ended the run.
            status = "waiting" if report.status == "success" else report.status
            report = replace(report, status=status, failed_node=None)
        elif report.status == "success" and (said := self.outputs.error or self.loop.error):
            report = replace(report, status="failure", error=said)
        elif report.status == "success" and self.loop.goes_on:
            report = replace(report, status="waiting")
        # Includes the calls of nodes that an outage has left without a result.
        usage = total_usage(self.folder / TRAJECTORY) or report.token_usage
        return replace(
            report,
            token_usage=usage,
            cost_usd=usage.cost_usd,
            flow_run_id=self._flow_run.id if self._flow_run else None,
            flow_run_url=self._flow_run.url if self._flow_run else None,
            repo=redact_url(request.repo),
            intent=request.intent,
            agent=request.agent,
            model=request.model,
            base_commit=now.base.commit,
            branch=work.branch if work else None,
            commit=work.commit if work else None,
            diff_stat=work.diff_stat if work else report.diff_stat,
            pushed=self.delivery.pushed,
            pull_request=self.delivery.pull_request,
            checks=self.loop.checks,
            outputs=self.outputs.reports(self.ctx.results),
            surfaced=self._surfaced(),
            started_at=self._started_at,
            notices=tuple(self._notices(is_resumable=error is not None and not self.is_abandoned)),
        )

    def _surfaced(self) -> SurfacedMemory:
        """Return all that memory showed this run, also in earlier processes of a resumed run."""
        if not self._start.resumed and not self._request.agentic_nodes:
            return SurfacedMemory()
        memory, run_id = self._dependencies.memory, self.ctx.run_id
        before = memory.shown_playbooks(run_id) if self._start.resumed else ()
        playbooks = tuple(dict.fromkeys((*before, *self._playbooks)))
        return replace(self.notes.surfaced(run_id), playbooks=playbooks)

    def _notices(self, *, is_resumable: bool) -> Iterator[str]:
        now, work = self.checkpoints.current, self.delivery.work
        for when in now.went_on:
            yield f"resumed {when}; finished nodes are not run again"
        if is_resumable:
            again = f"`harness runs resume {self.ctx.run_id}` continues it"
            yield f"the run stopped before its last node: {again}"
        suspends = self._flow_run is not None and self._flow_run.suspends
        yield from fallback_notices(self.folder / TRAJECTORY)
        yield from self.pending_approvals.notices(suspends=suspends)
        for branch in now.lost:
            yield f"the work of an agent that lost is in {now.base.bare}, branch {branch}"
        yield from now.notices
        yield from now.base.notices
        yield from work.notices if work else ()
        yield from self.egress.notices
        yield from self.delivery.notices


def mark_unrecorded(folder: Path, unrecorded_run: UnrecordedRun) -> None:
    """Mark the run's report as not yet recorded in memory."""
    write_in_home(folder / UNRECORDED, unrecorded_run.model_dump_json(), run_id=folder.name)


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
