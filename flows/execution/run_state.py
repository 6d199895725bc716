"""State of a run while it executes. `RunState.finish` records its end."""

from dataclasses import replace
from pathlib import Path

from contracts.errors import HarnessError, Unavailable
from contracts.run import RunContext, RunReport, SurfacedMemory
from flows.audit.event_log import AppendEvents
from flows.audit.run_events import RunEvents
from flows.execution.delivery import Delivery
from flows.execution.dependencies import RunDependencies
from flows.execution.outcome import EgressLog, RunFacts, interruption_by, run_report
from flows.execution.pending_approvals import PendingApprovals
from flows.execution.unrecorded import UnrecordedRun, mark_recorded, mark_unrecorded
from flows.recall.notes import RunNotes
from flows.recall.playbooks import MemoryUnavailable
from flows.runs.checkpoint import StartPoint, UsedBudget
from flows.runs.checkpoints import Checkpoints
from flows.runs.layout import EGRESS, TRAJECTORY
from flows.runs.model_calls import total_usage
from flows.runs.request import FlowRun, ResolvedRequest
from flows.runs.run_record import read_record
from flows.runs.runs import save_report
from policy.errors import LogDamaged


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
        return saved if spent is None else saved._replace(cost_usd=spent.cost_usd)

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
        """Push the work if the user asked for it and the run succeeded with no pending approval."""
        if self._request.push and self._facts().status == "success":
            self.delivery.push(self._report)

    def finish(self, error: BaseException | None = None) -> RunReport:
        """Record the end: events, report, memory, checkpoint, in this order. Return the report.

        `error` is what stopped the run before its nodes finished. A process that dies in here
        leaves the "unrecorded" mark or the checkpoint, so that a later process completes the rest.

        Raises:
            Unavailable, LogDamaged: the event log lacks this run's end, and `error` is None.
        """
        report, outage = self._write_events(self._report(error))
        is_over = self.is_abandoned or (error is None and not self.pending_approvals.is_waiting)
        verdict_later = self._request.definition.verdict_later
        mark_unrecorded(self.folder, UnrecordedRun(verdict_later=verdict_later, over=is_over))
        work = self.delivery.work
        save_report(self.folder, report, work.diff if work else "")
        recorded = self._dependencies.memory.record(report, verdict_later)
        if error is None and self.notes.is_worth_curating(report):
            self.notes.curate(report.run_id)
        if is_over:
            self.checkpoints.drop()
        if not isinstance(recorded, MemoryUnavailable):
            mark_recorded(self.folder)
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
        stopped = None
        if error is not None:
            redact, resumable = self._dependencies.redact, not self.is_abandoned
            stopped = interruption_by(error, resumable=resumable, redact=redact)
        return run_report(self._facts(), self._surfaced(), stopped)

    def _surfaced(self) -> SurfacedMemory:
        """Return all that memory showed this run, also in earlier processes of a resumed run."""
        if not self._start.resumed and not self._request.agentic_nodes:
            return SurfacedMemory()
        memory, run_id = self._dependencies.memory, self.ctx.run_id
        before = memory.shown_playbooks(run_id) if self._start.resumed else ()
        playbooks = tuple(dict.fromkeys((*before, *self._playbooks)))
        return replace(self.notes.surfaced(run_id), playbooks=playbooks)

    def _facts(self) -> RunFacts:
        return RunFacts(
            request=self._request,
            ctx=self.ctx,
            folder=self.folder,
            checkpoints=self.checkpoints,
            delivery=self.delivery,
            pending_approvals=self.pending_approvals,
            egress=self.egress,
            flow_run=self._flow_run,
            started_at=self._started_at,
        )
