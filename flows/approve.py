"""A plan as a deployment: what needs a person suspends the run, with a typed form in the UI.

The process ends meanwhile. An answer is written down before it counts, so a run that is
retried or restarted asks nothing twice.
"""

from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Literal
from uuid import UUID

from prefect import State, flow
from prefect.flow_runs import resume_flow_run, suspend_flow_run
from prefect.input import RunInput
from prefect.runtime import flow_run
from prefect.states import Cancelled
from pydantic import Field

from contracts.errors import ApprovalDecided, RunNotFound
from flows.plan_report import PlanReport, plan_form, question_form
from flows.plan_request import PlanRequest, note_plan, noted_plan
from flows.plan_run import PlanShop, begin, draft_plan, missing_grants, open_run, report_of
from flows.plan_wiring import plan_shop
from flows.plans import ended, publish, run_steps, step_runner
from flows.settings import load_settings
from policy.types import Approval, ApprovalStatus

RUN_IT, APPROVE = "run it", "approve"
_WEEK_S = 7 * 24 * 3600


class Agree(RunInput):
    """What a person says of a plan before it runs."""

    answer: Literal["refuse", "run it"] = Field(default="refuse", title="This plan")


class Decide(RunInput):
    """What a person says of one action."""

    answer: Literal["deny", "approve"] = Field(default="deny", title="This one action")
    reason: str = Field(default="", title="Why", max_length=2_000)


class Reply(RunInput):
    """What a person answers to a question of the plan."""

    answer: str = Field(title="Your answer", min_length=1, max_length=20_000)
    refuse: bool = Field(default=False, title="I will not answer")


@flow(
    name="run-plan",
    description="Make a plan of a prompt and run it; what its data may not decide, you do",
    flow_run_name=lambda: f"plan · {str(flow_run.id)[-8:]}",
    persist_result=True,
    task_runner=step_runner(),
)
def run_plan(
    prompt: str,
    repo: str,
    grants: list[str] = [],  # noqa: B006 - the form shows it; nobody changes it
    ask_first: bool = True,
) -> State[PlanReport]:
    """Make a plan and run it.

    Args:
        prompt: What you want, in your own words.
        repo: Folder, git repository or its URL to work on.
        grants: Capabilities that the plan has besides the configured ones, such as SEND_EMAIL.
        ask_first: Show the plan and wait until somebody agrees to it.
    """
    run_id = str(flow_run.id)[-8:]
    with plan_shop(load_settings()) as shop:
        request = PlanRequest(
            prompt=prompt, repo=repo, grants=frozenset(grants), flow_run=str(flow_run.id)
        )
        if not _agreed(shop, run_id, request, ask_first=ask_first):
            return Cancelled(message="the plan was refused")
        _go_on(shop, run_id)
        report = report_of(shop, run_id)
    publish(report)
    return ended(report)


def _agreed(shop: PlanShop, run_id: str, request: PlanRequest, *, ask_first: bool) -> bool:
    """Draft the plan and have it agreed on; a run that goes on has that behind it."""
    with suppress(RunNotFound):
        noted_plan(shop.log, run_id)
        return True
    try:
        asked, plan = noted_plan(shop.log, run_id, agreed=False)
    except RunNotFound:
        asked, plan = request, draft_plan(shop, request)
        note_plan(shop.log, run_id, asked, plan, agreed=False)
    missing = missing_grants(shop, asked, plan)
    if ask_first:
        form = Agree.with_initial_data(description=plan_form(asked.prompt, plan, missing))
        said = suspend_flow_run(wait_for_input=form, key=f"plan-{run_id}", timeout=_WEEK_S)
        if said.answer != RUN_IT:
            return False
        asked = replace(asked, grants=asked.grants | missing)
    begin(shop, run_id, asked, plan)
    return True


def _go_on(shop: PlanShop, run_id: str) -> None:
    """Run what can be run; then ask about one action at a time, until nothing waits."""
    while True:
        with open_run(shop, run_id) as run:
            run_steps(run)
        waiting = shop.approvals.list(run_id=run_id, pending=True)
        if not waiting:
            return
        _ask(shop, waiting[0])


def _ask(shop: PlanShop, approval: Approval) -> None:
    """Suspend until a person answered; what `harness approvals` said meanwhile goes before."""
    form: type[Decide] | type[Reply] = Reply if approval.is_question else Decide
    left = int((approval.expires_at - datetime.now(UTC)).total_seconds())
    said = suspend_flow_run(
        wait_for_input=form.with_initial_data(description=question_form(approval)),
        key=f"approval-{approval.id}",
        timeout=max(left, 1),
    )
    status, reason = _decided(said)
    with suppress(ApprovalDecided):
        shop.approvals.decide(approval.id, status, by="the Prefect UI", reason=reason)


def _decided(said: Decide | Reply) -> tuple[ApprovalStatus, str]:
    match said:
        case Decide():
            return ("approved" if said.answer == APPROVE else "denied"), said.reason
        case Reply():
            return ("denied" if said.refuse else "approved"), said.answer


def resume(suspended: str, approval: Approval) -> None:
    """Answer the form of a suspended flow run with what was decided elsewhere."""
    yes = approval.status == "approved"
    said: dict[str, object] = {"answer": APPROVE if yes else "deny", "reason": approval.reason}
    if approval.is_question:
        said = {"answer": approval.reason or "no answer", "refuse": not yes}
    resume_flow_run(UUID(suspended), run_input=said)
