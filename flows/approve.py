"""The deployment of plans: its flow run suspends itself for decisions, with a form in the UI."""

from contextlib import suppress
from dataclasses import replace
from typing import Any, Literal

from prefect import State, flow
from prefect.flow_runs import suspend_flow_run
from prefect.input import RunInput
from prefect.runtime import flow_run
from prefect.states import Cancelled
from pydantic import Field

from contracts.errors import RunNotFound
from flows.audit.approval_text import expired_line
from flows.config.settings import load_settings
from flows.orchestration.flow import (
    check_required,
    expected_errors,
    request_form,
    required_parameters,
    unless_typed,
)
from flows.orchestration.suspend import suspend_until_decided
from flows.plans.compile import (
    final_state,
    publish_report,
    remember_flow_run,
    run_steps,
    step_task_runner,
)
from flows.plans.dependencies import plan_dependencies
from flows.plans.reconcile import reconcile_plan
from flows.plans.record import record_plan, record_plan_end, recorded_plan
from flows.plans.report import PlanReport, plan_form
from flows.plans.request import NOT_ON_A_FORM, PlanRequest
from flows.plans.run import (
    PlanDependencies,
    draft_plan,
    missing_grants,
    open_plan_run,
    plan_report,
    record_agreed_plan,
)

RUN_IT = "run it"
PLAN_REFUSED = "the plan was refused"
_WEEK_S = 7 * 24 * 3600


class PlanApprovalForm(RunInput):
    """The user's decision about a plan before it runs."""

    answer: Literal["refuse", "run it"] = Field(default="refuse", title="This plan")


class _PlanForm(PlanRequest):
    """The form that starts a plan."""

    ask_first: bool = Field(
        default=True, title="Ask first", description="Show the plan and wait until you agree to it."
    )


@required_parameters("prompt", "repo")
@flow(
    name="run-plan",
    description="Make a plan of a prompt and run it; you decide what its data may not decide",
    flow_run_name=lambda: unless_typed(f"plan · {str(flow_run.id)[-8:]}"),
    persist_result=True,
    task_runner=step_task_runner(),
    on_cancellation=[reconcile_plan],
    on_crashed=[reconcile_plan],
)
@expected_errors
@request_form(model=_PlanForm, without=NOT_ON_A_FORM)
def run_plan(*, prompt: str, repo: str, ask_first: bool = True, **fields: Any) -> State[PlanReport]:
    """Make a plan and run it; `_PlanForm` makes the parameters."""
    check_required({"prompt": prompt, "repo": repo})
    run_id = str(flow_run.id)[-8:]
    with plan_dependencies(load_settings()) as deps:
        request = PlanRequest(prompt=prompt, repo=repo, flow_run=str(flow_run.id), **fields)
        if not _agreed(deps, run_id, request, ask_first=ask_first):
            _, plan = recorded_plan(deps.log, run_id, agreed=False)
            record_plan_end(deps.log, run_id, plan, status="cancelled", error=PLAN_REFUSED)
            return Cancelled(message=PLAN_REFUSED)
        remember_flow_run(deps, run_id)
        report = _run(deps, run_id)
        publish_report(deps, report)
    return final_state(report)


def _agreed(deps: PlanDependencies, run_id: str, request: PlanRequest, *, ask_first: bool) -> bool:
    """Draft the plan and ask the user to agree; True at once if the plan was agreed to before."""
    with suppress(RunNotFound):
        recorded_plan(deps.log, run_id)  # a suspended flow run starts again from its first line
        return True
    try:
        request, plan = recorded_plan(deps.log, run_id, agreed=False)
    except RunNotFound:
        plan = draft_plan(deps, request)
        record_plan(deps.log, run_id, request, plan, agreed=False)
    if ask_first:
        missing = missing_grants(deps, request, plan)
        description = plan_form(request.prompt, plan, missing)
        form = PlanApprovalForm.with_initial_data(description=description)
        reply = suspend_flow_run(wait_for_input=form, key=f"plan-{run_id}", timeout=_WEEK_S)
        if reply.answer != RUN_IT:
            return False
        request = request.with_grants(missing)
    record_agreed_plan(deps, run_id, request, plan)
    return True


def _run(deps: PlanDependencies, run_id: str) -> PlanReport:
    """Run steps, then suspend for approvals, until no step waits or an approval has expired."""
    while True:
        suspend_until_decided(deps.approvals, run_id)
        expired = expired_line(deps.approvals.expired_undecided(run_id))
        if expired is not None:
            return replace(plan_report(deps, run_id), status="failure", error=expired)
        with open_plan_run(deps, run_id) as run:
            run_steps(run)
        report = plan_report(deps, run_id)
        if report.status != "waiting":
            return report
