"""Where a plan stands, whether it was only drafted, runs, waits or is over."""

from dataclasses import dataclass, replace

from contracts.errors import OptionInvalid, RunNotFound
from flows.plans.end import is_plan_cancelled
from flows.plans.process import is_process_alive
from flows.plans.report import PlanReport
from flows.plans.request import PlanRequest, record_plan, recorded_plan
from flows.plans.run import (
    PlanDependencies,
    draft_plan,
    missing_grants,
    plan_report,
    record_agreed_plan,
)
from flows.runs.request import new_run_id
from policy.types import Approval


@dataclass(frozen=True, kw_only=True)
class PlanState:
    """A plan and how far it came. `missing_grants` are what it asks for and nobody granted."""

    request: PlanRequest
    report: PlanReport
    agreed: bool
    missing_grants: frozenset[str]
    pending_approvals: tuple[Approval, ...]


def record_draft(shop: PlanDependencies, request: PlanRequest) -> str:
    """Draft a plan and keep it under a new run id; nothing is run.

    Raises:
        RepoInvalid, PlanInvalid, ModelUnavailable: as `draft_plan`.
    """
    run_id = new_run_id()
    record_plan(shop.log, run_id, request, draft_plan(shop, request), agreed=False)
    return run_id


def plan_state(shop: PlanDependencies, run_id: str) -> PlanState:
    """Where it stands: from the log, and from whether the process that did it here still lives.

    Raises:
        RunNotFound: there is no plan under this id.
    """
    try:
        request, plan = recorded_plan(shop.log, run_id)
        agreed, report = True, plan_report(shop, run_id)
    except RunNotFound:
        request, plan = recorded_plan(shop.log, run_id, agreed=False)
        agreed = False
        report = PlanReport(run_id=run_id, status="planned", prompt=request.prompt, plan=plan)
    return PlanState(
        request=request,
        report=_as_it_is(shop, report),
        agreed=agreed,
        missing_grants=missing_grants(shop, request, plan),
        pending_approvals=tuple(shop.approvals.list(run_id=run_id, pending=True)),
    )


def _as_it_is(shop: PlanDependencies, report: PlanReport) -> PlanReport:
    """The report, with what no step of a plan tells that is not over."""
    if report.status not in ("planned", "waiting") or report.approvals:
        return report
    lives = is_process_alive(shop.log, report.run_id)
    if lives:
        return replace(report, status="running")
    if is_plan_cancelled(shop.log, report.run_id):
        return replace(report, status="cancelled")
    begun = lives is False
    return replace(report, status="lost") if begun and report.status == "planned" else report


def agree_to_plan(shop: PlanDependencies, run_id: str, grants: frozenset[str]) -> None:
    """Agree on a drafted plan and grant it these; once agreed, its grants stay as they are.

    Raises:
        RunNotFound: there is no plan under this id.
        OptionInvalid: a flow run of Prefect runs it and asks for itself.
    """
    state = plan_state(shop, run_id)
    if state.request.flow_run:
        raise OptionInvalid(f"plan {run_id} is run by a flow run: agree to it in the Prefect UI")
    if not state.agreed:
        request = state.request.with_grants(grants)
        record_agreed_plan(shop, run_id, request, state.report.plan)
