"""What is known of a run so far, its report, and what is told of it to whom."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from blueprints.report import report
from contracts.errors import HarnessError, Unavailable
from contracts.run import RunContext, RunReport, RunStatus, Surfaced
from flows import runs, untold
from flows.agent_approvals import answers, notices, pending
from flows.approval_text import late_line
from flows.asked import read_asked
from flows.checkpoint import Checkpoint, Used
from flows.checkpoints import Checkpoints
from flows.delivery import Delivery
from flows.egress import EgressLog
from flows.model_calls import spent
from flows.request import FlowRun, RunRequest, agentic_nodes
from flows.run_events import Append, RunEvents
from flows.run_folder import EGRESS, TRAJECTORY
from flows.run_memory import Away
from flows.run_notes import Notes
from flows.signals import undisturbed
from flows.untold import Untold
from flows.work_check import check_work, unvouched_work
from flows.workshop import Workshop
from nodes.blame import blame
from policy.errors import LogDamaged
from policy.types import Approval
from sandbox.git import redacted

if TYPE_CHECKING:
    from policy.approvals import Approvals


class Record:
    """What is known of a run so far; leaving the block keeps it as the run's report."""

    def __init__(
        self,
        request: RunRequest,
        start: Checkpoint,
        folder: Path,
        run_id: str,
        flow_run: FlowRun | None,
        workshop: Workshop,
        append: Append,
        book: Notes,
    ) -> None:
        self.book = book
        self.ctx = RunContext(run_id=run_id, work_dir="")
        self.folder = folder
        self.kept = Checkpoints(
            folder,
            start,
            ttl_s=workshop.keep_files_s,
            forget=lambda but: workshop.forget_files(run_id, but),
        )
        self.delivery = Delivery(request, run_id, self.kept, workshop)
        self.gives_up = False  # else a run that stopped can go on
        self._request = request
        self._base = start.base
        self._flow_run = flow_run
        self._suspends = flow_run is not None and flow_run.suspends
        self._redact = workshop.redact
        self._memory = workshop.memory
        self._shown: tuple[str, ...] = ()  # by this process
        self._went_on = bool(start.went_on)
        self._approvals = workshop.approvals
        self._asked: Sequence[Approval] = ()
        self._only_ends = start.ended is not None
        self._unvouched: str | None = None
        self._bounds = workshop.bounds(request)
        self.egress = EgressLog(folder / EGRESS)
        asked = read_asked(folder)
        self._started_at = asked.started_at if asked else ""
        self.events = RunEvents(
            append,
            request,
            run_id=run_id,
            start=start,
            folder=folder,
            redact=workshop.redact,
            bounds=self._bounds,
        )

    def __enter__(self) -> "Record":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        with nullcontext() if error is None else undisturbed():
            self._keep_report(error)

    def _keep_report(self, error: BaseException | None) -> None:
        self.report = self._report(error)
        outage = self._tell_events()
        work = self.delivery.work
        verdict_later = self._request.blueprint.verdict_later
        over = self.gives_up or (error is None and not pending(self._asked))
        untold.note(self.folder, Untold(verdict_later=verdict_later, over=over))
        runs.finish(self.folder, self.report, work.diff if work else "")
        told = self._memory.record(self.report, verdict_later)
        if error is None and self.book.earned(self.report):
            self.book.learn(self.report.run_id)
        if over:
            self.kept.drop()
        if not isinstance(told, Away):
            untold.forget(self.folder)
        if outage is not None and error is None:
            raise outage

    @property
    def used(self) -> Used:
        """What the run's agents have used before now, also where an outage came of it."""
        known = self.kept.now.used
        lost = spent(self.folder / TRAJECTORY)
        return known if lost is None else known._replace(cost_usd=lost.cost_usd)

    def recalled(self) -> str:
        """What memory has for this task; noted in the report. Nobody asks where no agent works."""
        if not agentic_nodes(self._request.blueprint):
            return ""
        task = self._request.intent or self._request.blueprint.description
        recall = self._memory.surface(self.ctx.run_id, task)
        self._shown = recall.shown
        self.events.surfaced(recall)
        said = self._answers() if self.kept.now.went_on else ""
        return "\n\n".join(filter(None, (recall.text, said)))

    def _answers(self) -> str:
        with self._approvals() as approvals:
            return answers(approvals.list(run_id=self.ctx.run_id))

    def _surfaced(self) -> Surfaced:
        if not self._went_on and not agentic_nodes(self._request.blueprint):
            return Surfaced()
        run_id = self.ctx.run_id
        before = self._memory.shown(run_id) if self._went_on else ()
        shown = tuple(dict.fromkeys((*before, *self._shown)))
        return replace(self.book.given(run_id), playbooks=shown)

    def keep(self, ctx: RunContext) -> None:
        self.ctx = ctx
        self.events.keep(ctx, self.kept.now.files)

    def _tell_events(self) -> HarnessError | None:
        """Write the end into the event log; what hinders that is a notice in the report."""
        try:
            self.events.finish(self.report)
        except (Unavailable, LogDamaged) as outage:
            notice = f"the event log does not hold all of this run: {outage}"
            self.report = replace(self.report, notices=(*self.report.notices, notice))
            return outage
        return None

    def look_for_approvals(self) -> None:
        """See what waits for a person now that the nodes are over, the work itself included.

        A run that only waited, for a person who did not come, ends here.
        """
        if not agentic_nodes(self._request.blueprint) and not self._in_doubt():
            return
        run_id = self.ctx.run_id
        with self._approvals() as approvals:
            if self._only_ends:
                self._unvouched = late_line(approvals.undecided(run_id))
            self._asked = approvals.list(run_id=run_id)
            looking = self._unvouched is None
            while looking:
                waits = self._work_waits(approvals)
                self._asked = approvals.list(run_id=run_id)
                looking = waits and not pending(self._asked)  # somebody decided just now

    def _in_doubt(self) -> bool:
        """Whether a push of work that no agent had a hand in needs a person's word."""
        work, bounds = self.delivery.work, self._bounds
        if not self._request.push or work is None or bounds is None:
            return False
        return unvouched_work(work, self._base, bounds) is not None

    def _work_waits(self, approvals: "Approvals") -> bool:
        work, bounds = self.delivery.work, self._bounds
        if work is None or bounds is None:
            return False
        run_id = self.ctx.run_id
        checked = check_work(work, self._base, bounds, run_id=run_id, approvals=approvals)
        self._unvouched = checked.refused
        return checked.waits

    def push_if_asked(self) -> None:
        if self._request.push and self._status() == "success":
            self.delivery.push(lambda: self._report(None))

    def _verdict(self) -> RunReport:
        took = self.kept.elapsed_ms
        return report(self._request.blueprint, self.ctx, total_duration_ms=took)

    def _why(self, error: BaseException) -> str:
        return self._redact(reason(error))

    def _status(self) -> RunStatus:
        status = self._verdict().status
        if self._unvouched is not None:
            return "failure"
        return "waiting" if status == "success" and pending(self._asked) else status

    def _report(self, error: BaseException | None) -> RunReport:
        verdict = self._verdict()
        work = self.delivery.work
        usage = spent(self.folder / TRAJECTORY) or verdict.token_usage
        return replace(
            verdict,
            token_usage=usage,
            cost_usd=usage.cost_usd,
            status=self._status() if error is None else status_after(error),
            failed_node=verdict.failed_node if error is None and not pending(self._asked) else None,
            error=verdict.error or self._unvouched if error is None else self._why(error),
            flow_run_id=self._flow_run.id if self._flow_run else None,
            flow_run_url=self._flow_run.url if self._flow_run else None,
            repo=redacted(self._request.repo),
            intent=self._request.intent,
            agent=self._request.agent,
            model=self._request.model,
            base_commit=self._base.commit,
            branch=work.branch if work else None,
            commit=work.commit if work else None,
            diff_stat=work.diff_stat if work else verdict.diff_stat,
            pushed=self.delivery.pushed,
            pull_request=self.delivery.pull_request,
            surfaced=self._surfaced(),
            started_at=self._started_at,
            notices=(
                *(f"went on {when}, without running them again" for when in self.kept.now.went_on),
                *((_goes_on(self.ctx.run_id),) if error is not None and not self.gives_up else ()),
                *notices(self._asked, self.ctx.run_id, suspends=self._suspends),
                *(
                    f"what did not win is kept: {self._base.bare} has {b}"
                    for b in self.kept.now.lost
                ),
                *self.kept.now.notices,
                *self._base.notices,
                *(work.notices if work else ()),
                *self.egress.notices,
                *self.delivery.notices,
            ),
        )


def _goes_on(run_id: str) -> str:
    return f"the nodes did not come to an end: `harness runs resume {run_id}` goes on"


def status_after(error: BaseException) -> RunStatus:
    """How a run ended that this ended."""
    return "failure" if isinstance(error, Exception) else "cancelled"


def reason(error: BaseException) -> str:
    """The same, in words."""
    if not isinstance(error, Exception):  # Ctrl-C, or Prefect's signal
        said = str(error) if isinstance(error, KeyboardInterrupt) else ""
        return said or "it was cancelled"
    if isinstance(error, HarnessError):
        return str(error)
    return blame(error) or f"{type(error).__name__}: {error}".rstrip(": ")
