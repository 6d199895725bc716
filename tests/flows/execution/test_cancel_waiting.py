"""A run that waits for a person and is cancelled: it ends, and nobody is asked any more."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from contracts.run import RunReport
from flows.config.settings import load_settings
from flows.execution.dependencies import RunDependencies
from flows.execution.engine import run_blueprint
from flows.orchestration.cancel import WHY, cancel_any_run, cancel_waiting_run
from flows.orchestration.start import connected_to
from flows.plans.dependencies import plan_dependencies
from flows.plans.request import PlanRequest
from flows.plans.run import record_agreed_plan
from flows.plans.state import plan_state
from flows.recall.library import configured_library
from flows.runs.request import FlowRun
from flows.runs.runs import read_entry, read_report
from flows.services.prefect_server import prefect_client
from policy.plan.plan_json import parse_plan
from policy.types import Approval
from tests.support.flows import Ask
from tests.support.guarded_runs import CHANGE_CI, DONE, WORK, agent_blueprint
from tests.support.policy import MAIL

RUN = "abcd1234"
asks = agent_blueprint()
READ = '[{"op": "read_file", "args": {"path": "a"}, "tool_caps": ["READ_FILE"], "deps": []}]'


@pytest.fixture
def waiting(shop: RunDependencies, ask: Ask, model: Callable[..., str]) -> Callable[..., RunReport]:
    """A run that waits, after a call that the guard denied."""

    def begin(flow_run: FlowRun | None = None) -> RunReport:
        request = ask(asks, model=model(CHANGE_CI, WORK, DONE))
        found = request.changed(blueprint=f"{__file__}:asks")
        report = run_blueprint(found, shop, run_id=RUN, flow_run=flow_run)
        assert report.status == "waiting"
        return report

    return begin


def asked(shop: RunDependencies) -> list[Approval]:
    with shop.open_approvals() as approvals:
        return approvals.list(run_id=RUN)


def test_it_is_cancelled_with_its_work_and_recorded_once(
    waiting: Callable[..., RunReport], shop: RunDependencies
) -> None:
    before = waiting()
    report = cancel_waiting_run(shop, RUN)
    assert report is not None
    assert (report.status, report.branch) == ("cancelled", before.branch)
    assert not any("resume" in notice for notice in report.notices)
    assert [(one.status, one.reason) for one in asked(shop)] == [("denied", WHY)]
    assert not read_entry(shop.runs, RUN).resumable
    with configured_library() as opened:
        assert len(opened.list_executions()) == 1
    assert cancel_waiting_run(shop, RUN) is None


def test_it_is_recorded_also_when_its_blueprint_is_gone(
    waiting: Callable[..., RunReport], shop: RunDependencies
) -> None:
    before = waiting()
    noted = shop.runs / RUN / "run.json"
    noted.write_text(noted.read_text().replace(__file__, f"{__file__}.gone"))
    report = cancel_waiting_run(shop, RUN)
    assert report is not None
    assert (report.status, report.blueprint) == ("cancelled", before.blueprint)
    assert report.branch == before.branch
    assert [node.output for node in report.nodes] == [node.output for node in before.nodes]
    with configured_library() as opened:
        assert len(opened.list_executions()) == 1


@pytest.mark.prefect
@pytest.mark.parametrize("where", ["in the UI", "on the command line"])
def test_it_is_withdrawn_wherever_it_is_cancelled(
    waiting: Callable[..., RunReport],
    shop: RunDependencies,
    prefect_api: str,
    monkeypatch: pytest.MonkeyPatch,
    where: str,
) -> None:
    from prefect.states import Cancelling, Suspended

    from benchmarks.operate.bare import bare
    from flows.orchestration.cancel import cancel_waiting_runs

    monkeypatch.setenv("PREFECT_API_URL", prefect_api)
    with connected_to(prefect_api), prefect_client(prefect_api) as client:
        run = client.create_flow_run(bare)
        client.set_flow_run_state(run.id, Suspended(timeout_seconds=600), force=True)
        waiting(FlowRun(str(run.id), "", suspends=True))
        assert cancel_waiting_runs(shop) == 0
        if where == "in the UI":
            client.set_flow_run_state(run.id, Cancelling())
            assert cancel_waiting_runs(shop) == 1
        else:
            assert cancel_any_run(load_settings(), RUN).state == "cancelled"
        state = client.read_flow_run(run.id).state
        assert state is not None
        assert state.is_cancelled()
    assert read_report(shop.runs, RUN).status == "cancelled"
    assert {one.status for one in asked(shop)} == {"denied"}


@pytest.mark.prefect
def test_it_is_ended_also_if_somebody_decided_after_the_cancel(
    waiting: Callable[..., RunReport],
    shop: RunDependencies,
    prefect_api: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from prefect.states import Cancelled

    from benchmarks.operate.bare import bare
    from flows.orchestration.cancel import cancel_waiting_runs

    monkeypatch.setenv("PREFECT_API_URL", prefect_api)
    with connected_to(prefect_api), prefect_client(prefect_api) as client:
        run = client.create_flow_run(bare)
        waiting(FlowRun(str(run.id), "", suspends=True))
        client.set_flow_run_state(run.id, Cancelled(), force=True)
        with shop.open_approvals() as approvals:
            for one in approvals.list(run_id=RUN, pending=True):
                approvals.decide(one.id, "denied", by="ann")
        assert cancel_waiting_runs(shop) == 1
    assert read_report(shop.runs, RUN).status == "cancelled"


@pytest.mark.prefect
def test_what_a_plan_asked_is_denied_when_it_is_cancelled(
    own_home: Path, prefect_api: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from prefect.states import Cancelled, Crashed

    from benchmarks.operate.bare import bare
    from flows.plans.reconcile import cancel_waiting_plans, reconcile_plan

    monkeypatch.setenv("PREFECT_API_URL", prefect_api)
    with (
        connected_to(prefect_api),
        prefect_client(prefect_api) as client,
        plan_dependencies(load_settings()) as plans,
    ):
        run = client.create_flow_run(bare)
        run_id = str(run.id)[-8:]
        request = PlanRequest(prompt="send it", repo=".", flow_run=str(run.id))
        record_agreed_plan(plans, run_id, request, parse_plan(READ, prompt=""))
        plans.approvals.ask(replace(MAIL, run_id=run_id))
        reconcile_plan(bare, run, Crashed())
        assert cancel_waiting_plans(plans) == 0, "it goes on with Retry"
        assert plan_state(plans, run_id).report.status == "planned"
        client.set_flow_run_state(run.id, Cancelled(), force=True)
        assert cancel_waiting_plans(plans) == 1
        assert plan_state(plans, run_id).report.status == "cancelled"
        (asked,) = plans.approvals.list(run_id=run_id)
        assert (asked.status, asked.reason) == ("denied", WHY)
