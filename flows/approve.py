"""A plan as a deployment: what needs a person suspends the run, with a typed form in the UI."""

from contextlib import suppress
from dataclasses import replace
from typing import Literal

from prefect import State, flow
from prefect.flow_runs import suspend_flow_run
from prefect.input import RunInput
from prefect.runtime import flow_run
from prefect.states import Cancelled
from pydantic import Field

from contracts.errors import RunNotFound
from flows.audit.approval_text import expired_line
from flows.config.settings import load_settings
from flows.orchestration.flow import NOT_GIVEN, check_required, expected_errors, required_parameters
from flows.orchestration.heartbeat import heartbeat
from flows.orchestration.suspend import suspend_until_decided
from flows.plans.compile import final_state, publish_report, run_steps, step_task_runner
from flows.plans.dependencies import plan_dependencies
from flows.plans.end import record_plan_end
from flows.plans.reconcile import reconcile_plan
from flows.plans.report import PlanReport, plan_form
from flows.plans.request import PlanRequest, record_plan, recorded_plan
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
    """What a person says of a plan before it runs."""

    answer: Literal["refuse", "run it"] = Field(default="refuse", title="This plan")


@required_parameters("prompt", "repo")
@flow(
    name="run-plan",
    description="Make a plan of a prompt and run it; what its data may not decide, you do",
    flow_run_name=lambda: f"plan · {str(flow_run.id)[-8:]}",
    persist_result=True,
    task_runner=step_task_runner(),
    on_cancellation=[reconcile_plan],
    on_crashed=[reconcile_plan],
)
@expected_errors
def run_plan(
    prompt: str = NOT_GIVEN,
    repo: str = NOT_GIVEN,
    grants: list[str] = [],  # noqa: B006 - the form shows it; nobody changes it
    ask_first: bool = True,
    allow_change: list[str] = [],  # noqa: B006 - the form shows it; nobody changes it
) -> State[PlanReport]:
    """Make a plan and run it.

    Args:
        prompt: What you want, in your own words.
        repo: Folder, git repository or its URL to work on.
        grants: Capabilities that the plan has besides the configured ones, such as SEND_EMAIL.
        ask_first: Show the plan and wait until somebody agrees to it.
        allow_change: Patterns of protected files that may be pushed changed, such as
            .github/workflows/*. Nothing that the prompt says permits it.
    """
    check_required({"prompt": prompt, "repo": repo})
    run_id = str(flow_run.id)[-8:]
    with heartbeat(), plan_dependencies(load_settings()) as shop:
        request = PlanRequest(
            prompt=prompt,
            repo=repo,
            grants=frozenset(grants),
            allow_change=tuple(allow_change),
            flow_run=str(flow_run.id),
        )
        if not _agreed(shop, run_id, request, ask_first=ask_first):
            _note_refused(shop, run_id)
            return Cancelled(message=PLAN_REFUSED)
        report = _go_on(shop, run_id)
    publish_report(report)
    return final_state(report)


def _agreed(shop: PlanDependencies, run_id: str, request: PlanRequest, *, ask_first: bool) -> bool:
    """Draft the plan and have it agreed on; a run that goes on has that behind it."""
    with suppress(RunNotFound):
        recorded_plan(shop.log, run_id)
        return True
    try:
        asked, plan = recorded_plan(shop.log, run_id, agreed=False)
    except RunNotFound:
        asked, plan = request, draft_plan(shop, request)
        record_plan(shop.log, run_id, asked, plan, agreed=False)
    missing = missing_grants(shop, asked, plan)
    if ask_first:
        form = PlanApprovalForm.with_initial_data(
            description=plan_form(asked.prompt, plan, missing)
        )
        said = suspend_flow_run(wait_for_input=form, key=f"plan-{run_id}", timeout=_WEEK_S)
        if said.answer != RUN_IT:
            return False
        asked = replace(asked, grants=asked.grants | missing)
    record_agreed_plan(shop, run_id, asked, plan)
    return True


def _note_refused(shop: PlanDependencies, run_id: str) -> None:
    _, plan = recorded_plan(shop.log, run_id, agreed=False)
    record_plan_end(shop.log, run_id, plan, status="cancelled", error=PLAN_REFUSED)


def _go_on(shop: PlanDependencies, run_id: str) -> PlanReport:
    """Run what can be run, then wait for a person, until nothing waits or what waited expired."""
    while True:
        suspend_until_decided(shop.approvals, run_id)
        late = expired_line(shop.approvals.expired_undecided(run_id))
        if late is not None:
            return replace(plan_report(shop, run_id), status="failure", error=late)
        with open_plan_run(shop, run_id) as run:
            run_steps(run)
        report = plan_report(shop, run_id)
        if report.status != "waiting":
            return report
