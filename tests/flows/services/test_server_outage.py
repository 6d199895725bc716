"""The Prefect server is killed under a run of the command line."""

import os
import signal
from collections.abc import Callable
from threading import Event

import httpx
import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings

from blueprints.dsl import blueprint, deterministic
from blueprints.engine import RunListener
from blueprints.types import Blueprint
from contracts.run import NodeResult, RunContext, RunReport
from contracts.sandbox import Sandbox
from flows.config.settings import Settings, load_settings
from flows.execution.end_state import set_recorded_states
from flows.orchestration import start
from flows.services import prefect_server
from nodes.commands import command
from tests.support.flows import Ask, scripted_shop

pytestmark = pytest.mark.prefect

BEFORE_THE_FIRST_NODE, DURING_A_NODE, AFTER_THE_LAST_NODE = "before", "during", "after"


@pytest.fixture
def kill(own_server: Settings) -> Callable[[], None]:
    """Kills the test's own Prefect server."""

    def kill_server() -> None:
        running = prefect_server.server_daemon(own_server).up()
        os.kill(running.pid, signal.SIGKILL)
        while running.alive:
            os.sched_yield()

    return kill_server


@pytest.fixture
def run(
    own_server: Settings, own_home: object, monkeypatch: pytest.MonkeyPatch, ask: Ask
) -> Callable[..., RunReport]:
    """Runs a blueprint in the test's own server, with a scripted sandbox."""
    monkeypatch.setattr(start, "build_dependencies", lambda *_, **__: scripted_shop())

    def begin(
        made: Blueprint, run_id: str, watch: RunListener, tell: Callable[[str], None]
    ) -> RunReport:
        url = prefect_server.server_daemon(own_server).up().url
        with temporary_settings({PREFECT_API_URL: url}):
            return start.run_in_prefect(
                ask(made), load_settings(), run_id=run_id, watch=watch, tell=tell
            )

    return begin


def states(api: str) -> dict[str, str]:
    """The states of the only flow run of this server and of its task runs, by name."""
    with httpx.Client(base_url=api, timeout=60) as server:
        [run] = server.post("/flow_runs/filter", json={}).raise_for_status().json()
        tasks = server.post("/task_runs/filter", json={}).raise_for_status().json()
    return {one["name"]: one["state_type"] for one in tasks} | {"the run": run["state_type"]}


@pytest.mark.parametrize("moment", [BEFORE_THE_FIRST_NODE, DURING_A_NODE, AFTER_THE_LAST_NODE])
def test_a_run_outlives_its_server_which_gets_the_state_later(
    own_server: Settings, kill: Callable[[], None], run: Callable[..., RunReport], moment: str
) -> None:
    away = Event()

    def works(_: RunContext, __: Sandbox) -> NodeResult:
        if moment == DURING_A_NODE:
            kill()
        if moment != AFTER_THE_LAST_NODE:
            away.wait()
        return NodeResult.success()

    def begins(name: str) -> None:
        if moment == BEFORE_THE_FIRST_NODE and name == "work":
            kill()

    def ends(name: str, _: NodeResult) -> None:
        if moment == AFTER_THE_LAST_NODE and name == "fails":
            kill()

    said: list[str] = []

    def tell(line: str) -> None:
        said.append(line)
        away.set()

    nodes = [
        deterministic("work", "work", works),
        deterministic("fails", "fails", command("false")),
    ]
    watch = RunListener(on_node_start=begins, on_node_complete=ends)
    report = run(blueprint("two", "Two nodes", nodes), "c1", watch, tell)
    assert [node.status for node in report.nodes] == ["success", "failure"]
    assert report.status == "failure"
    assert len(said) == 1
    assert "stopped answering: the run goes on without it" in said[0]

    again = prefect_server.server_daemon(own_server).up().url
    runs = load_settings().runs
    assert states(again)["the run"] == "RUNNING"
    assert set_recorded_states(runs, again) == 1
    found = states(again)
    assert found["the run"] == "FAILED"
    assert not {"RUNNING", "PENDING"} & set(found.values())
    assert set_recorded_states(runs, again) == 0


def test_a_server_that_answers_again_gets_the_final_state_at_once(
    own_server: Settings, kill: Callable[[], None], run: Callable[..., RunReport]
) -> None:
    port = httpx.URL(prefect_server.server_daemon(own_server).up().url).port
    away, noticed = Event(), Event()
    back: list[str] = []

    def tell(line: str) -> None:
        (noticed if "answers again" in line and away.is_set() else away).set()

    def works(_: RunContext, __: Sandbox) -> NodeResult:
        kill()
        away.wait()
        back.append(prefect_server.server_daemon(replace_port(own_server, port)).up().url)
        noticed.wait()
        return NodeResult.success()

    one = blueprint("one", "One node", [deterministic("work", "work", works)])
    report = run(one, "c2", RunListener(), tell)
    assert report.status == "success"
    assert states(back[0])["the run"] == "COMPLETED"


def replace_port(settings: Settings, port: int | None) -> Settings:
    return settings.model_copy(update={"server_port": port})


def test_an_error_of_the_blueprint_is_not_an_outage(
    own_server: Settings, run: Callable[..., RunReport]
) -> None:
    def raises(_: RunContext, __: Sandbox) -> NodeResult:
        raise httpx.ConnectError("the author's own server")

    one = blueprint("one", "One node", [deterministic("work", "work", raises)])
    said: list[str] = []
    with pytest.raises(Exception, match="the author's own server"):
        run(one, "c3", RunListener(), said.append)
    assert said == []
    assert states(prefect_server.server_daemon(own_server).up().url)["the run"] == "FAILED"
