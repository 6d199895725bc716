"""Start a plan, here or in a process of its own, and resume what waited for an approval.

The process of its own is `python -m flows.plans.start RUN_ID`.
"""

import logging
import sys
from pathlib import Path
from typing import Literal, NamedTuple

from filelock import FileLock

from contracts.errors import HarnessError, RunNotFound
from flows.config.settings import Settings, load_settings
from flows.orchestration.start import connected_to
from flows.plans.dependencies import plan_dependencies
from flows.plans.record import record_plan_end, recorded_plan
from flows.plans.report import PlanReport, PlanStatus
from flows.plans.run import PlanDependencies
from flows.runs.runs import read_entry
from flows.services.daemon import start_detached
from flows.services.prefect_server import api_url
from policy.types import Approval, Approver
from sandbox.process_label import has_exited, process_label

_log = logging.getLogger(__name__)

AfterDecision = Literal["goes on", "waits", "over", "here"]
"""The run after the decision: its flow run is resumed, waits for more decisions, or is over.
"here": no flow run is suspended, and the caller may resume the run."""


class BackgroundPlan(NamedTuple):
    """The process that runs a plan: its log and its label."""

    log: Path
    process: str

    @property
    def has_ended(self) -> bool:
        """True if the process has exited; False if that cannot be known."""
        return self.process.endswith(":-") or has_exited(self.process)


def run_plan_in_prefect(
    deps: PlanDependencies, settings: Settings, run_id: str, person: Approver | None = None
) -> PlanReport:
    """Run the steps of the agreed plan of this id that can run now, and return its report.

    Processes that resume the same plan wait for each other.

    Raises:
        RunNotFound: there is no such plan.
        PrefectUnavailable: there is no server, or it stopped answering.
        HarnessError: any error that ended the run before it could report.
    """
    api = api_url(settings)
    locks = settings.home / "plans"
    locks.mkdir(parents=True, exist_ok=True)
    with FileLock(locks / f"{run_id}.lock"), connected_to(api):
        from flows.plans.compile import compile_plan
        from flows.services.server_outage import survive_outages

        with survive_outages(api, _log.warning):
            state = compile_plan(deps, run_id, person)(return_state=True)
        result: object = state.result(raise_on_failure=False)
    if isinstance(result, PlanReport):
        return result
    if isinstance(result, BaseException):
        raise result
    raise TypeError(f"the plan returned {result!r}, which is no PlanReport")


def start_background_plan(settings: Settings, run_id: str) -> BackgroundPlan:
    """Start or resume the agreed plan of this id in a process that outlives this one.

    Its progress stands in the event log, ending with a `report` event.
    """
    log = settings.home / "logs" / f"{run_id}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    argv = (sys.executable, "-P", "-m", "flows.plans.start", run_id)
    return BackgroundPlan(log, process_label(start_detached(argv, cwd=Path.cwd(), log=log)))


def resume_flow_run(
    deps: PlanDependencies, settings: Settings, approval: Approval
) -> AfterDecision:
    """Resume the flow run that is suspended for this approval, unless others are still pending.

    Raises:
        RunNotFound: this home has no run of the approval's run id.
        PrefectUnavailable: there is no server, or it stopped answering; the decision is kept.
    """
    suspended = _flow_run(deps, settings, approval)
    if not suspended:
        return "here"
    with connected_to(api_url(settings)):
        from flows.orchestration.suspend import resume_if_decided

        return resume_if_decided(suspended, deps.approvals, approval.run_id)


def resume_in_background(
    deps: PlanDependencies, settings: Settings, approval: Approval
) -> BackgroundPlan | AfterDecision:
    """Like `resume_flow_run`; a plan without a flow run is resumed in a process of its own.

    Raises:
        RunNotFound, PrefectUnavailable: as `resume_flow_run`.
    """
    then = resume_flow_run(deps, settings, approval)
    if then == "here" and not approval.node:
        return start_background_plan(settings, approval.run_id)
    return then


def after_decision_line(approval: Approval, then: AfterDecision, settings: Settings) -> str:
    """Return one line about the run after the decision."""
    run_id = approval.run_id
    match then:
        case "goes on":
            return f"run {run_id} is resumed"
        case "waits":
            return f"run {run_id} waits for more decisions"
        case "over" | "here" if approval.node:
            return _resumable(run_id, settings)
        case "over" | "here":
            return f"the flow run of plan {run_id} is over"


def _resumable(run_id: str, settings: Settings) -> str:
    try:
        state = read_entry(settings.runs, run_id).state
    except RunNotFound:
        return f"run {run_id} is not in this home's runs"
    if state in ("queued", "running"):
        return f"run {run_id} is {state}: its agent may repeat the call"
    return f"resume the run with `harness runs resume {run_id}`"


def _flow_run(deps: PlanDependencies, settings: Settings, approval: Approval) -> str:
    """Return the id of the flow run that suspends itself for approvals of this run, or ""."""
    if not approval.node:
        return recorded_plan(deps.log, approval.run_id)[0].flow_run
    try:
        entry = read_entry(settings.runs, approval.run_id)
    except RunNotFound:
        return ""
    return (entry.flow_run_id or "") if entry.suspends else ""


def main(run_id: str) -> int:
    """Run the plan and record its status at the end; return an exit code."""
    settings = load_settings()
    with plan_dependencies(settings) as deps:
        _, plan = recorded_plan(deps.log, run_id)
        status: PlanStatus = "failure"
        error: str | None = "its process ended early"
        try:
            report = run_plan_in_prefect(deps, settings, run_id)
            status, error = report.status, report.error
        except HarnessError as outage:
            error = str(outage)
            sys.stderr.write(f"error: {outage}\n")
        finally:
            record_plan_end(deps.log, run_id, plan, status=status, error=error)
    return 1 if status == "failure" else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
