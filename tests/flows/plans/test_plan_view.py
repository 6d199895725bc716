"""The view of a plan: steps, questions with their answers, and a link to its flow run."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from app.terminal.views import view_text
from contracts.errors import RunNotFound
from flows.config.settings import load_settings
from flows.plans.dependencies import plan_dependencies
from flows.plans.record import save_flow_run
from flows.plans.request import PlanRequest
from flows.plans.run import PlanDependencies
from flows.plans.state import agree_to_plan, record_draft
from flows.plans.view import plan_view, plans_view, view_of
from flows.views.spec import Facts, Link, Table, ViewSpec, cell_text
from policy.types import ApprovalRequest
from tests.support.planning import HARMLESS, planner
from tests.support.policy import WHY


@pytest.fixture
def shop() -> Iterator[PlanDependencies]:
    with plan_dependencies(load_settings()) as made:
        yield replace(made, complete=planner(HARMLESS))


@pytest.fixture
def plan(shop: PlanDependencies, tmp_path: Path) -> str:
    run_id = record_draft(shop, PlanRequest(prompt="mail\nit\x1b[8m", repo=str(tmp_path)))
    agree_to_plan(shop, run_id, frozenset({"SEND_EMAIL"}))
    return run_id


def table(view: ViewSpec, title: str) -> list[list[str]]:
    (found,) = [part for part in view.parts if isinstance(part, Table) and part.title == title]
    return [[cell_text(cell) for cell in row] for row in found.rows]


def test_a_plan_shows_its_steps_before_they_run(shop: PlanDependencies, plan: str) -> None:
    (step,) = table(plan_view(shop, plan), "Steps")
    assert (step[0], step[1].split("(")[0], step[2]) == ("0", "send_email", "planned")


def test_an_answer_is_shown_with_who_gave_it(shop: PlanDependencies, plan: str) -> None:
    asked = ApprovalRequest(action="a", run_id=plan, step=0, op="x", arguments={}, denied=WHY)
    shop.approvals.ask(asked)
    (one,) = shop.approvals.list(run_id=plan)
    shop.approvals.decide(one.id, "denied", by="ann", reason="not them")
    (answer,) = table(plan_view(shop, plan), "Questions and answers")
    assert answer == [one.id, "x()", "denied", "ann", "not them"]


def test_a_plan_links_to_its_flow_run(shop: PlanDependencies, plan: str) -> None:
    url = "http://127.0.0.1:4200/runs/flow-run/0198"
    save_flow_run(shop.log, plan, "0198", url)
    (facts,) = [part for part in plan_view(shop, plan).parts if isinstance(part, Facts)]
    assert dict(facts.rows)["in Prefect"] == Link(text="flow run", href=url)


def test_a_terminal_prints_a_plan_without_its_escapes(shop: PlanDependencies, plan: str) -> None:
    shown = view_text(view_of(shop, plan))
    assert shown.startswith(f"Plan {plan}\n")
    assert "Prompt:\n  mail\n  it\\x1b[8m\n" in shown


def test_the_list_of_plans_links_to_each(shop: PlanDependencies, plan: str) -> None:
    (newest,) = plans_view(shop, limit=5).parts
    assert isinstance(newest, Table)
    assert newest.rows[0][0] == Link(text=plan, href=f"/plans/{plan}")


def test_an_unknown_plan_has_no_view(shop: PlanDependencies) -> None:
    with pytest.raises(RunNotFound):
        plan_view(shop, "none")
