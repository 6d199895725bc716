"""A blueprint as a flow on a real Prefect server."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import httpx
import prefect
import pytest
from prefect.blocks.system import Secret
from prefect.logging.handlers import APILogHandler
from pydantic import SecretStr

from blueprints.dsl import (
    agentic,
    blueprint,
    compete,
    deterministic,
    parallel,
    step,
    validate,
)
from blueprints.types import Blueprint
from contracts.errors import RepoInvalid, SandboxLost, SecretMissing
from contracts.run import NodeResult, RunContext, RunReport
from contracts.sandbox import Sandbox
from flows.execution.dependencies import RunDependencies
from flows.execution.wiring import build_dependencies
from flows.orchestration.compile import compile_blueprint
from flows.orchestration.flow import secret_variables
from flows.orchestration.start import run_in_flow_run
from flows.runs.run_record import read_record
from nodes.commands import command, shell
from tests.support.collector import Collector, listening
from tests.support.flow_runs import WRITE_42
from tests.support.flows import DONE
from tests.support.repositories import git
from tests.support.waiting import wait_until

pytestmark = pytest.mark.prefect


Record = dict[str, Any]
"""JSON as the server gives it."""
Run = Callable[..., tuple[RunReport | BaseException, Record]]


@pytest.fixture
def collector() -> Iterator[Collector]:
    with listening() as there:
        yield there


@pytest.fixture
def run(shop: RunDependencies, repository: object, api: httpx.Client) -> Run:
    """Run a blueprint as a flow; gives its result and the server's record of it."""

    def run_flow(made: Blueprint, **given: object) -> tuple[RunReport | BaseException, Record]:
        flow = compile_blueprint(made, lambda: shop)
        state = flow(repo=str(repository), return_state=True, **given)
        record = api.get(f"/flow_runs/{state.state_details.flow_run_id}").json()
        return state.result(raise_on_failure=False), record

    return run_flow


def task_runs(api: httpx.Client, flow_run: Record) -> dict[str, Record]:
    """The flow run's task runs by name, once the server knows how all of them ended."""

    def over() -> list[Record]:
        found = of_run(api, "task_runs", flow_run)
        ended = all(task["state"]["type"] in ("COMPLETED", "FAILED") for task in found)
        return found if ended else []

    return {task["name"]: task for task in wait_until(over)}


def of_run(api: httpx.Client, kind: str, flow_run: Record) -> list[Record]:
    """All records of one kind that belong to this flow run."""
    chosen = {"flow_runs": {"id": {"any_": [flow_run["id"]]}}}
    found: list[Record] = api.post(f"/{kind}/filter", json=chosen).raise_for_status().json()
    return found


def log_of(api: httpx.Client, flow_run: Record) -> list[str]:
    """What the UI shows as the log of the flow run and its task runs."""
    APILogHandler.flush(APILogHandler())
    mine = {"logs": {"flow_run_id": {"any_": [flow_run["id"]]}}}
    return [log["message"] for log in api.post("/logs/filter", json=mine).json()]


def answer_is_42() -> Blueprint:
    fix = agentic("mend", "mend it", prompt=lambda ctx: ctx.results["check"].output)
    steps = [step("answer", command("grep", "-qx", "42", "answer.txt"))]
    return blueprint(
        "answer-is-42",
        "Check the answer",
        [
            deterministic("look", "look at it", shell("echo the answer is; cat answer.txt")),
            deterministic("never {a,b} }{/", "skipped", command("false"), skip=lambda _: True),
            validate("check", "check it", steps=steps, on_failure=fix, max_retries=1),
        ],
    )


def test_a_flow_hands_the_run_what_it_may_change(run: Run, shop: RunDependencies) -> None:
    looks = blueprint("looks", "Looks", [deterministic("look", "look", command("true"))])
    report, _ = run(looks, allow_change=["*.lock"])
    assert isinstance(report, RunReport)
    asked = read_record(shop.runs / report.run_id)
    assert asked is not None
    assert asked.allow_change == ("*.lock",)


def test_a_flow_has_the_name_of_its_blueprint(shop: RunDependencies) -> None:
    assert compile_blueprint(answer_is_42(), lambda: shop).name == "answer-is-42"


def test_a_successful_run_is_completed_and_gives_its_report(
    run: Run, model: Callable[..., str]
) -> None:
    report, flow_run = run(answer_is_42(), model=model(WRITE_42, DONE))
    assert isinstance(report, RunReport)
    assert (report.status, flow_run["state_name"]) == ("success", "Completed")
    assert report.flow_run_id == flow_run["id"]
    assert report.run_id == flow_run["id"][-8:]


def test_a_run_gives_a_heartbeat(run: Run, api: httpx.Client) -> None:
    _, flow_run = run(blueprint("looks", "Looks", [deterministic("look", "look", command("true"))]))
    beats = {
        "event": {"name": ["prefect.flow-run.heartbeat"]},
        "resource": {"id": [f"prefect.flow-run.{flow_run['id']}"]},
    }
    found = wait_until(lambda: api.post("/events/filter", json={"filter": beats}).json()["events"])
    assert len(found) == 1


def test_every_node_step_and_attempt_is_a_task_run(
    run: Run, api: httpx.Client, model: Callable[..., str]
) -> None:
    _, flow_run = run(answer_is_42(), model=model(WRITE_42, DONE))
    states = {name: task["state_name"] for name, task in task_runs(api, flow_run).items()}
    assert states == {
        "surface playbooks": "Completed",
        "look": "Completed",
        "never {a,b} }{/": "Skipped",
        "check": "Completed",
        "check/answer (attempt 1)": "Failed",
        "mend (attempt 1)": "Completed",
        "check/answer (attempt 2)": "Completed",
        "record execution": "Completed",
    }


def test_a_failed_node_makes_the_flow_run_failed_with_the_reason(
    run: Run, api: httpx.Client
) -> None:
    made = blueprint("fails", "Fails", [deterministic("do", "do it", shell("exit 3"))])
    _, flow_run = run(made)
    assert flow_run["state_name"] == "Failed"
    assert "exit code 3" in flow_run["state"]["message"]
    told = log_of(api, flow_run)
    assert [
        line for line in told if line.startswith("Finished in state Failed(") and "sh -c" in line
    ]
    assert not [line for line in told if "NoneType: None" in line]


def test_what_a_node_raises_ends_the_flow_run_with_its_report(run: Run, api: httpx.Client) -> None:
    def buggy(_: RunContext, __: Sandbox) -> NodeResult:
        raise ZeroDivisionError("by zero")

    result, flow_run = run(blueprint("buggy", "Raises", [deterministic("bug", "bug", buggy)]))
    assert isinstance(result, ZeroDivisionError)
    assert flow_run["state_name"] == "Failed"
    keys = [one["key"] for one in of_run(api, "artifacts", flow_run)]
    assert {key.partition("-")[0] for key in keys if key} == {
        "report",
        "nodes",
        "execution",
        "events",
    }


def test_lanes_are_task_runs_and_what_lost_is_kept(
    run: Run, api: httpx.Client, model: Callable[..., str], shop: RunDependencies
) -> None:
    lanes = [[deterministic(name, name, command("true"))] for name in ("left", "right")]
    steps = [step("answer", command("true"))]
    tried = compete("try", "Try", 2, prompt=lambda _: "go", steps=steps)
    made = blueprint("lanes", "Lanes", [parallel("both", "Both", lanes), tried])
    report, flow_run = run(made, model=model(WRITE_42, WRITE_42, DONE, DONE))
    assert isinstance(report, RunReport)
    assert report.status == "success"
    states = {name: task["state_name"] for name, task in task_runs(api, flow_run).items()}
    wanted = {"both", "left", "right", "try", "try-1", "try-2", "try-1/answer", "try-2/answer"}
    assert {name: states[name] for name in wanted} == dict.fromkeys(wanted, "Completed")
    # Both take from one script, in whatever order; what lost has changed something in any.
    [kept] = [notice for notice in report.notices if "lanes.try-" in notice]
    [bare] = shop.repos.glob("*.git")
    assert str(bare) in kept
    assert git(bare, "show", f"{kept.split()[-1]}:answer.txt") == "42"


def test_a_flow_run_that_an_outage_ended_tells_what_it_knows_and_goes_on_when_it_is_retried(
    shop: RunDependencies,
    repository: object,
    api: httpx.Client,
    collector: Collector,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As the UI's Retry does it: the same flow run, from the top, in another process."""
    monkeypatch.setenv("HARNESS_TELEMETRY__ENDPOINT", collector.url)
    done: list[str] = []

    def breaks_once(_: RunContext, __: Sandbox) -> NodeResult:
        done.append("second")
        if len(done) == 2:
            raise SandboxLost("the container is gone")
        return NodeResult.success()

    def first(_: RunContext, __: Sandbox) -> NodeResult:
        done.append("first")
        return NodeResult.success()

    nodes = [deterministic("first", "1", first), deterministic("second", "2", breaks_once)]
    flow = compile_blueprint(blueprint("breaks", "Breaks once", nodes), lambda: shop)
    crashed = flow(repo=str(repository), return_state=True)
    flow_run_id = crashed.state_details.flow_run_id
    keys = {one["key"] for one in of_run(api, "artifacts", {"id": str(flow_run_id)})}
    assert f"report-{str(flow_run_id)[-8:]}" in keys
    assert ("harness.runs" in collector.metrics(), "run breaks" in collector.spans()) == (True,) * 2
    for _ in range(2):
        state = run_in_flow_run(flow, {"repo": str(repository)}, str(flow_run_id))
        assert state.name == "Completed"
    assert done == ["first", "second", "second"]
    record = api.get(f"/flow_runs/{flow_run_id}").json()
    states = {name: task["state_name"] for name, task in task_runs(api, record).items()}
    assert states["first"] == "Completed"
    assert (record["state_name"], record["id"][-8:]) == ("Completed", str(flow_run_id)[-8:])


def test_the_report_and_the_diff_are_artifacts(run: Run, api: httpx.Client) -> None:
    made = blueprint("writes", "Writes", [deterministic("do", "do", shell("echo 42 >answer.txt"))])
    _, flow_run = run(made)
    found = {a["key"].split("-")[0]: a["data"] for a in of_run(api, "artifacts", flow_run)}
    assert set(found) == {"report", "nodes", "execution", "events"}
    assert "+42" in found["report"]
    assert '"node": "do"' in found["nodes"]


def test_output_streams_to_the_prefect_log(run: Run, api: httpx.Client) -> None:
    def from_threads(ctx: RunContext, sandbox: Sandbox) -> NodeResult:
        with ThreadPoolExecutor() as threads:
            return threads.submit(command("echo", "from a thread"), ctx, sandbox).result()

    nodes = [
        deterministic("do", "do it", shell("echo how nice")),
        deterministic("threads", "do it in threads of its own", from_threads),
    ]
    report, flow_run = run(blueprint("talks", "Talks", nodes))
    assert isinstance(report, RunReport)
    assert {"how nice", "from a thread"} <= set(log_of(api, flow_run))


def test_a_run_is_named_and_tagged_after_what_it_does(
    run: Run, api: httpx.Client, model: Callable[..., str]
) -> None:
    made = model(WRITE_42, DONE)
    report, flow_run = run(answer_is_42(), model=made)
    assert isinstance(report, RunReport)
    assert flow_run["name"] == f"answer-is-42 · repository · {report.run_id}"
    about = ["agent:native", "blueprint:answer-is-42", f"model:{made}", "repo:repository"]
    assert flow_run["tags"] == about
    assert all(not task["tags"] for task in task_runs(api, flow_run).values())


def test_a_blueprint_is_a_subflow_of_a_users_flow(
    shop: RunDependencies, repository: object, api: httpx.Client
) -> None:
    looks = compile_blueprint(
        blueprint("looks", "Looks", [deterministic("look", "look", command("true"))]), lambda: shop
    )

    @prefect.flow
    def nightly() -> str:
        report = looks(repo=str(repository))
        assert isinstance(report, RunReport)
        return report.run_id

    run_id = nightly()
    named = {"flow_runs": {"name": {"like_": run_id}}}
    (inner,) = api.post("/flow_runs/filter", json=named).json()
    assert inner["parent_task_run_id"] is not None


@pytest.mark.parametrize("typed", ["before the release", "nightly"])
def test_a_name_that_a_person_typed_stays(
    shop: RunDependencies, repository: object, api: httpx.Client, typed: str
) -> None:
    looks = blueprint("looks", "Looks", [deterministic("look", "look", command("true"))])
    flow = compile_blueprint(looks, lambda: shop)
    flow_id = api.post("/flows/", json={"name": "looks"}).json()["id"]
    made = api.post("/flow_runs/", json={"flow_id": flow_id, "name": typed}).json()
    run_in_flow_run(flow, {"repo": str(repository)}, made["id"])
    assert api.get(f"/flow_runs/{made['id']}").json()["name"] == typed


def test_what_cannot_be_run_ends_the_flow_run_with_one_line(run: Run, api: httpx.Client) -> None:
    made = blueprint("talks", "Talks", [deterministic("do", "do it", shell("echo nice"))])
    error, flow_run = run(made, ref="no-such-branch")
    assert isinstance(error, RepoInvalid)
    assert flow_run["state_name"] == "Failed"
    assert flow_run["state"]["message"] == str(error)
    assert not [line for line in log_of(api, flow_run) if "Traceback" in line]


def test_a_secret_is_set_while_the_run_lasts_and_never_told(
    shop: RunDependencies, repository: object, api: httpx.Client
) -> None:
    Secret(value=SecretStr("s3cret-of-team-a")).save("team-a-token", overwrite=True)
    made = blueprint("asks", "Asks", [deterministic("ask", "ask it", _tell_token)])
    flow = compile_blueprint(
        made, lambda: replace(build_dependencies(), open_sandbox=shop.open_sandbox)
    )
    report = flow(repo=str(repository), secrets={"TEAM_TOKEN": "team-a-token"})
    assert isinstance(report, RunReport)
    assert report.nodes[0].output == "[redacted]"
    assert "TEAM_TOKEN" not in os.environ
    told = api.get(f"/flow_runs/{report.flow_run_id}").text
    assert "team-a-token" in told
    assert "s3cret-of-team-a" not in told


def _tell_token(_: RunContext, __: Sandbox) -> NodeResult:
    return NodeResult.success(os.environ["TEAM_TOKEN"])


def test_a_secret_block_that_is_missing_is_named(run: Run) -> None:
    made = blueprint("talks", "Talks", [deterministic("do", "do it", shell("echo nice"))])
    error, flow_run = run(made, secrets={"TEAM_TOKEN": "nobody-made-it"})
    assert isinstance(error, SecretMissing)
    assert "no Secret block 'nobody-made-it'" in flow_run["state"]["message"]


@pytest.mark.usefixtures("shop", "api")
def test_a_secret_is_the_text_that_was_written_and_nothing_but_text() -> None:
    Secret(value=SecretStr("12345")).save("team-a-pin", overwrite=True)
    Secret.model_validate({"value": {"pin": 12345}}).save("team-a-pins", overwrite=True)
    with secret_variables({"TEAM_TOKEN": "team-a-pin"}):
        assert os.environ["TEAM_TOKEN"] == "12345"
    with pytest.raises(SecretMissing, match="holds a dict, and a variable takes text"):
        secret_variables({"TEAM_TOKEN": "team-a-pins"}).__enter__()
