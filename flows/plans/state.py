"""The state of a plan: drafted, running, waiting or over."""

from dataclasses import dataclass, replace

from contracts.errors import OptionInvalid, RunNotFound
from flows.audit.question_text import approval_json
from flows.plans.record import is_plan_cancelled, is_process_alive, record_plan, recorded_plan
from flows.plans.report import PlanReport
from flows.plans.request import PlanRequest
from flows.plans.run import (
    PlanDependencies,
    check_grants,
    draft_plan,
    missing_grants,
    plan_report,
    record_agreed_plan,
)
from flows.runs.request import new_run_id
from policy.types import Approval
from sandbox.redaction import redact_url


@dataclass(frozen=True, kw_only=True)
class PlanState:
    """A plan and its progress. `missing_grants` are the capabilities it needs and does not have."""

    request: PlanRequest
    report: PlanReport
    agreed: bool
    missing_grants: frozenset[str]
    pending_approvals: tuple[Approval, ...]


def record_draft(deps: PlanDependencies, request: PlanRequest) -> str:
    """Draft a plan and record it under a new run id, which is returned; nothing is run.

    Raises:
        RepoInvalid, PlanInvalid, ModelUnavailable: as `draft_plan`.
    """
    run_id = new_run_id()
    record_plan(deps.log, run_id, request, draft_plan(deps, request), agreed=False)
    return run_id


def plan_state(deps: PlanDependencies, run_id: str) -> PlanState:
    """Return the state of the plan, from the event log and from whether its process is alive.

    Raises:
        RunNotFound: there is no plan under this id.
    """
    try:
        request, plan = recorded_plan(deps.log, run_id)
        agreed, report = True, plan_report(deps, run_id)
    except RunNotFound:
        request, plan = recorded_plan(deps.log, run_id, agreed=False)
        agreed = False
        report = PlanReport(run_id=run_id, status="planned", prompt=request.prompt, plan=plan)
    return PlanState(
        request=request,
        report=_with_process_status(deps, report),
        agreed=agreed,
        missing_grants=missing_grants(deps, request, plan),
        pending_approvals=tuple(deps.approvals.list(run_id=run_id, pending=True)),
    )


def plan_json(state: PlanState) -> dict[str, object]:
    """Return the plan and its progress as one JSON document, for the command line and the API."""
    return {
        **state.report.as_json(),
        "id": state.report.run_id,
        "agreed": state.agreed,
        "repo": redact_url(state.request.repo),
        "grants": sorted(state.request.grants),
        "allow_change": list(state.request.allow_change),
        "missing_grants": sorted(state.missing_grants),
        "approvals": [approval_json(one) for one in state.pending_approvals],
    }


def _with_process_status(deps: PlanDependencies, report: PlanReport) -> PlanReport:
    """Return the report with a status that steps do not show: running, cancelled or lost."""
    if report.status not in ("planned", "waiting") or report.approvals:
        return report
    alive = is_process_alive(deps.log, report.run_id)
    if alive:
        return replace(report, status="running")
    if is_plan_cancelled(deps.log, report.run_id):
        return replace(report, status="cancelled")
    was_started = alive is False
    is_lost = was_started and report.status == "planned"
    return replace(report, status="lost") if is_lost else report


def agree_to_plan(deps: PlanDependencies, run_id: str, grants: frozenset[str]) -> None:
    """Agree to a drafted plan with more grants. Grants of an agreed plan do not change.

    Raises:
        RunNotFound: there is no plan under this id.
        OptionInvalid: a Prefect flow run runs the plan and asks with its own form.
    """
    state = plan_state(deps, run_id)
    if state.request.flow_run:
        raise OptionInvalid(f"plan {run_id} is run by a flow run: agree to it in the Prefect UI")
    check_grants(deps, state.request, grants)
    if not state.agreed:
        request = state.request.with_grants(grants)
        record_agreed_plan(deps, run_id, request, state.report.plan)
