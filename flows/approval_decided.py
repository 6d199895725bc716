"""After a person's decision: who goes on, and how, wherever it was said."""

from typing import Literal

from contracts.errors import RunNotFound
from flows.config.settings import Settings
from flows.orchestration.start import connected_to
from flows.plans.background import BackgroundPlan, start_background_plan
from flows.plans.record import recorded_plan
from flows.plans.run import PlanDependencies
from flows.runs.runs import read_entry
from flows.services.prefect_server import api_url
from policy.types import Approval

AfterDecision = Literal["goes on", "waits", "over", "here"]
"""What becomes of the run: its flow run goes on by itself, or waits for more decisions, or is over;
or no flow run waits for it, and whoever is here goes on."""


def resume_flow_run(
    deps: PlanDependencies, settings: Settings, approval: Approval
) -> AfterDecision:
    """Let the flow run go on that is suspended for this decided approval, if nothing else waits.

    Raises:
        RunNotFound: nothing runs or ran here under the approval's run id.
        PrefectUnavailable: no server, or it went away; the decision stands.
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
    """Let the run go on that this decided approval is about, a plan in a process of its own.

    Raises:
        RunNotFound, PrefectUnavailable: as `tell_flow_run`.
    """
    then = resume_flow_run(deps, settings, approval)
    return (
        start_background_plan(settings, approval.run_id)
        if then == "here" and not approval.node
        else then
    )


def after_decision_line(approval: Approval, then: AfterDecision, settings: Settings) -> str:
    """What becomes of the run of an approval that was decided, in one line."""
    run_id = approval.run_id
    match then:
        case "goes on":
            return f"run {run_id} goes on"
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
        return f"run {run_id} is {state}: its agent may ask for it again"
    return f"`harness runs resume {run_id}` goes on"


def _flow_run(deps: PlanDependencies, settings: Settings, approval: Approval) -> str:
    """The flow run that suspends itself for approvals of this run; empty when none does."""
    if not approval.node:
        return recorded_plan(deps.log, approval.run_id)[0].flow_run
    try:
        entry = read_entry(settings.runs, approval.run_id)
    except RunNotFound:
        return ""
    return (entry.flow_run_id or "") if entry.suspends else ""
