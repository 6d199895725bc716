"""What is known of a run so far, by the parts that know it; its report in the end."""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from contracts.errors import HarnessError, Unavailable
from contracts.run import RunContext, RunReport
from flows.audit.run_events import AppendEvents, RunEvents
from flows.execution.delivery import Delivery
from flows.execution.dependencies import RunDependencies
from flows.execution.finalize import Finalizer, failure_reason, status_for_error
from flows.execution.outcome import Interruption, RunFacts, run_report
from flows.execution.pending_approvals import PendingApprovals
from flows.execution.unrecorded import UnrecordedRun
from flows.recall.notes import RunNotes
from flows.recall.surfaced import RunRecall
from flows.runs.checkpoint import StartPoint, UsedBudget
from flows.runs.checkpoints import Checkpoints
from flows.runs.egress import EgressLog
from flows.runs.layout import EGRESS, TRAJECTORY
from flows.runs.model_calls import total_usage
from flows.runs.request import FlowRun, ResolvedRequest
from flows.runs.run_record import read_record
from flows.runs.signals import ignore_sigterm
from nodes.node_errors import describe_node_error, failed_node_durations
from policy.errors import LogDamaged


class RunState:
    """What is known of a run so far; leaving the block keeps it as the run's report."""

    def __init__(
        self,
        request: ResolvedRequest,
        start: StartPoint,
        folder: Path,
        run_id: str,
        flow_run: FlowRun | None,
        workshop: RunDependencies,
        append: AppendEvents,
        book: RunNotes,
    ) -> None:
        self.ctx = RunContext(run_id=run_id, work_dir="")
        self.folder = folder
        self.notes = book
        self.gives_up = False  # else a run that stopped can go on
        self.checkpoints = Checkpoints(
            folder,
            start.checkpoint,
            ttl_s=workshop.snapshot_ttl_s,
            forget=lambda but: workshop.remove_snapshots(run_id, but),
        )
        bounds = workshop.bounds(request)
        self.delivery = Delivery(request, run_id, self.checkpoints, workshop)
        self.pending_approvals = PendingApprovals(
            request, run_id, start.checkpoint.base, self.delivery, bounds, workshop.open_approvals
        )
        self.egress = EgressLog(folder / EGRESS)
        self.events = RunEvents(
            append,
            request,
            run_id=run_id,
            start=start,
            folder=folder,
            redact=workshop.redact,
            bounds=bounds,
        )
        self._recall = RunRecall(request, run_id, workshop.memory, book, resumed=start.resumed)
        self._ending = Finalizer(
            folder=folder, checkpoints=self.checkpoints, memory=workshop.memory, book=book
        )
        self._request = request
        self._resumed = start.resumed
        self._flow_run = flow_run
        self._redact = workshop.redact
        self._only_ends = start.checkpoint.ended is not None
        asked = read_record(folder)
        self._started_at = asked.started_at if asked else ""

    @property
    def used_budget(self) -> UsedBudget:
        """What the run's agents have used before now, also where an outage came of it."""
        known = self.checkpoints.current.used
        lost = total_usage(self.folder / TRAJECTORY)
        return known if lost is None else known._replace(cost_usd=lost.cost_usd)

    def recall(self) -> str:
        """What memory has for this task, and what a person said to agents that go on; it is noted
        in the report. Nobody asks where no agent works."""
        if not self._request.agentic_nodes:
            return ""
        recall = self._recall.recall()
        self.events.memory_shown(recall)
        said = self.pending_approvals.decisions_text() if self._resumed else ""
        return "\n\n".join(filter(None, (recall.text, said)))

    def node_finished(self, ctx: RunContext) -> None:
        """A node has ended."""
        self.ctx = ctx
        self.events.node_finished(ctx, self.checkpoints.current.files)

    def look_for_approvals(self) -> None:
        """See what waits for a person now that the nodes are over, the work itself included."""
        self.pending_approvals.load(only_ends=self._only_ends)

    def push_if_asked(self) -> None:
        """Push the work where the run succeeded and nothing of it is in doubt."""
        if self._request.push and self._known().status == "success":
            self.delivery.push(lambda: self._report(None))

    def __enter__(self) -> "RunState":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        with nullcontext() if error is None else ignore_sigterm():
            self._end(error)

    def _end(self, error: BaseException | None) -> None:
        self.report = self._report(error)
        outage = self._tell_events()
        note = UnrecordedRun(
            verdict_later=self._request.definition.verdict_later,
            over=self.gives_up or (error is None and not self.pending_approvals.is_waiting),
        )
        self._ending.keep(self.report, self.delivery.work, note, teaches=error is None)
        if outage is not None and error is None:
            raise outage

    def _tell_events(self) -> HarnessError | None:
        """Write the end into the event log; what hinders that is a notice in the report."""
        try:
            self.events.run_finished(self.report)
        except (Unavailable, LogDamaged) as outage:
            notice = f"the event log does not hold all of this run: {outage}"
            self.report = replace(self.report, notices=(*self.report.notices, notice))
            return outage
        return None

    def _report(self, error: BaseException | None) -> RunReport:
        stopped = None if error is None else self._stopped(error)
        return run_report(self._known(), self._recall.all_surfaced(), stopped)

    def _stopped(self, error: BaseException) -> Interruption:
        return Interruption(
            status=status_for_error(error),
            reason=self._redact(failure_reason(error)),
            resumable=not self.gives_up,
            blamed_line=self._redact(describe_node_error(error) or ""),
            raised_in=failed_node_durations(error),
        )

    def _known(self) -> RunFacts:
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
