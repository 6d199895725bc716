"""Plans are listed, found by the beginning of their id, compared and cancelled."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from contracts.errors import OptionInvalid, RunNotFound, RunNotRunning
from flows.config.settings import load_settings
from flows.plans.dependencies import plan_dependencies
from flows.plans.manage import cancel_plan, check_resumable, find_plan, list_plans, plan_diff
from flows.plans.record import save_flow_run
from flows.plans.request import PlanRequest
from flows.plans.run import PlanDependencies
from flows.plans.state import agree_to_plan, plan_state, record_draft
from policy.types import ApprovalRequest
from tests.support.planning import HARMLESS, STEERED, planner
from tests.support.policy import WHY


@pytest.fixture
def shop() -> Iterator[PlanDependencies]:
    with plan_dependencies(load_settings()) as made:
        yield replace(made, complete=planner(HARMLESS, STEERED))


def drafted(shop: PlanDependencies, folder: Path, **more: object) -> str:
    fields = {"prompt": "mail it", "repo": str(folder), "intent": "eve@evil.example", **more}
    return record_draft(shop, PlanRequest.model_validate(fields))


def test_plans_are_listed_newest_first_and_found_by_the_beginning_of_their_id(
    shop: PlanDependencies, tmp_path: Path
) -> None:
    first, second = drafted(shop, tmp_path), drafted(shop, tmp_path, prompt="mail more")
    assert [one.run_id for one in list_plans(shop, limit=5)] == [second, first]
    assert [(one.prompt, one.steps, one.status) for one in list_plans(shop, limit=1)] == [
        ("mail more", 1, "planned")
    ]
    assert find_plan(shop, first[:-1]) == first
    for unknown in ("", "zzz"):
        with pytest.raises(RunNotFound, match="harness plan list"):
            find_plan(shop, unknown)


def test_a_diff_shows_the_changed_prompt_and_steps(shop: PlanDependencies, tmp_path: Path) -> None:
    names = drafted(shop, tmp_path), drafted(shop, tmp_path, prompt="mail more")
    one, other = (plan_state(shop, name) for name in names)
    lines = plan_diff(one, other).splitlines()
    assert {"-mail it", "+mail more"} <= set(lines)
    assert any(line.startswith("-0. send_email") for line in lines)
    assert plan_diff(one, one) == ""


def test_a_cancelled_plan_is_over_and_its_approvals_are_denied(
    shop: PlanDependencies, tmp_path: Path
) -> None:
    run_id = drafted(shop, tmp_path)
    agree_to_plan(shop, run_id, frozenset({"SEND_EMAIL"}))
    shop.approvals.ask(
        ApprovalRequest(action="a", run_id=run_id, step=0, op="x", arguments={}, denied=WHY)
    )
    assert cancel_plan(shop, load_settings(), run_id).report.status == "cancelled"
    assert [one.status for one in shop.approvals.list(run_id=run_id)] == ["denied"]
    with pytest.raises(RunNotRunning, match="it is cancelled"):
        cancel_plan(shop, load_settings(), run_id)
    with pytest.raises(OptionInvalid, match="is cancelled"):
        check_resumable(plan_state(shop, run_id))


def test_a_plan_that_nobody_agreed_to_is_not_resumed(
    shop: PlanDependencies, tmp_path: Path
) -> None:
    with pytest.raises(OptionInvalid, match="nobody agreed"):
        check_resumable(plan_state(shop, drafted(shop, tmp_path)))


@pytest.mark.parametrize("grant", ["SEND_MAIL", "release:nothing", "release:share_with:nobody"])
def test_an_unknown_grant_is_refused(shop: PlanDependencies, tmp_path: Path, grant: str) -> None:
    with pytest.raises(OptionInvalid, match=f"no operation requires {grant}"):
        drafted(shop, tmp_path, grants=[grant])
    run_id = drafted(shop, tmp_path)
    with pytest.raises(OptionInvalid, match="SEND_EMAIL"):
        agree_to_plan(shop, run_id, frozenset({grant}))


def test_a_plan_links_to_its_flow_run(shop: PlanDependencies, tmp_path: Path) -> None:
    run_id = drafted(shop, tmp_path)
    agree_to_plan(shop, run_id, frozenset({"SEND_EMAIL"}))
    save_flow_run(shop.log, run_id, "f1", "http://127.0.0.1:4200/runs/flow-run/f1")
    report = plan_state(shop, run_id).report
    assert (report.flow_run_id, report.flow_run_url) == (
        "f1",
        "http://127.0.0.1:4200/runs/flow-run/f1",
    )
