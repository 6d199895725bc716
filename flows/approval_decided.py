"""Resume the run of an approval after a decision, wherever the decision was made."""

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
"""The run after the decision: its flow run is resumed, waits for more decisions, or is over.
"here": no flow run is suspended, and the caller may resume the run."""


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
