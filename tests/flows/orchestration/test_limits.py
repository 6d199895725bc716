"""Limits of a repository or a model: what comes under them queues, and leaves when cancelled."""

from collections.abc import Callable
from contextvars import copy_context
from pathlib import Path
from threading import Thread

import httpx
import pytest
from prefect import State, flow, get_client
from prefect.concurrency.sync import concurrency

from blueprints.dsl import (
    agentic,
    blueprint,
    deterministic,
)
from contracts.run import RunReport
from flows.config.settings import LimitSettings, load_settings
from flows.execution.dependencies import RunDependencies
from flows.orchestration.compile import compile_blueprint
from flows.orchestration.limits import hold_slots, run_limits
from flows.plans.dependencies import plan_dependencies
from flows.plans.request import PlanRequest
from nodes.commands import command
from tests.support.flows import DONE
from tests.support.requested import requested
from tests.support.waiting import LONG_S, wait_until

pytestmark = pytest.mark.prefect


def test_a_run_over_the_limit_queues_and_says_so(
    shop: RunDependencies, repository: Path, api: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_LIMITS__PER_REPOSITORY", "1")
    made = blueprint("queues", "Queues", [deterministic("do", "do it", command("true"))])
    flow = compile_blueprint(made, lambda: shop)
    asked = requested(made, repository)
    limits = run_limits(asked, LimitSettings(per_repository=1))
    with get_client(sync_client=True) as client:
        client.upsert_global_concurrency_limit_by_name(next(iter(limits)), 1)
    done: list[State[RunReport]] = []

    def start() -> None:
        done.append(flow(repo=str(repository), return_state=True))

    waits = Thread(target=copy_context().run, args=(start,))
    with concurrency(list(limits), strict=True):
        waits.start()
        wait_until(lambda: _state_of(api, "queues") == "Queued")
        assert done == []
    waits.join(LONG_S)
    assert [state.name for state in done] == ["Completed"]


def test_what_a_plan_begins_waits_for_a_slot_until_the_plan_is_cancelled(
    model: Callable[..., str], repository: Path, api: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_LIMITS__PER_REPOSITORY", "1")
    monkeypatch.setenv("HARNESS_MODEL", model(DONE))
    made = blueprint("any", "Any", [deterministic("any", "any", command("true"))])
    asked = requested(made, repository)
    limits = run_limits(asked, LimitSettings(per_repository=1))

    @flow(name="begins")
    def begins() -> None:
        with plan_dependencies(load_settings()) as shop:
            shop.run_blueprint(PlanRequest(prompt="", repo=str(repository)), "fix-tests", "")

    def start() -> None:
        with pytest.raises(KeyboardInterrupt):
            begins()

    waits = Thread(target=copy_context().run, args=(start,))
    with hold_slots(limits):
        waits.start()
        wait_until(lambda: _state_of(api, "begins") == "Running")
        [run] = api.post("/flow_runs/filter", json={"flows": {"name": {"any_": ["begins"]}}}).json()
        wanted = {"state": {"type": "CANCELLING"}}
        api.post(f"/flow_runs/{run['id']}/set_state", json=wanted).raise_for_status()
        waits.join(LONG_S)
        assert not waits.is_alive()
    assert not list(load_settings().runs.glob("*"))


def test_only_limits_that_are_set_hold_a_run_back(shop: RunDependencies) -> None:
    fix = agentic("mend", "mend it", prompt=lambda _: "mend")
    made = blueprint("asks", "Asks", [fix])
    asked = requested(made, "/srv/app", model="ollama/qwen3:4b")
    assert run_limits(asked, LimitSettings()) == {}
    limits = LimitSettings(per_model={"ollama/qwen3:4b": 2, "other": 1})
    assert run_limits(asked, limits) == {"harness model ollama-qwen3:4b": 2}


@pytest.mark.parametrize(
    "address",
    [
        "https://github.com/team/app",
        "https://github.com/team/app/",
        "https://ann:s3cret@github.com/team/app.git",
        "git@github.com:team/app.git",
        "ssh://git@GitHub.com/team/app.git",
    ],
)
def test_all_addresses_of_a_repository_share_its_limit(address: str) -> None:
    made = blueprint("any", "Any", [deterministic("any", "any", command("true"))])
    asked = requested(made, "https://github.com/team/app.git")
    limits = LimitSettings(per_repository=1)
    assert run_limits(asked.changed(repo=address), limits) == run_limits(asked, limits)
    other = asked.changed(repo="https://github.com/team/other.git")
    assert run_limits(other, limits) != run_limits(asked, limits)


def _state_of(api: httpx.Client, flow: str) -> str:
    """The state of the flow's newest run, if it has one."""
    newest = {"flows": {"name": {"any_": [flow]}}, "sort": "START_TIME_DESC"}
    found = api.post("/flow_runs/filter", json=newest).json()
    return str(found[0]["state_name"]) if found else ""
