"""Runs started, cancelled and retried in the Prefect UI by a person, and one by its schedule."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from app.demo import request as demo
from app.demo.request import make_repository
from flows.config.settings import Settings, load_settings
from flows.execution.wiring import docker_engine, sandbox_owner
from flows.host.local_stack import bring_up, take_down
from flows.plans.dependencies import plan_dependencies
from flows.recall.library import configured_library
from flows.runs.home import CHECKPOINT
from flows.runs.run_record import read_record
from flows.runs.runs import read_report
from flows.services import prefect_server
from flows.services.deploy import UPKEEP_PREFIX, start_deployment
from sandbox.process_label import has_exited, pid_of
from sandbox.reap import list_sandboxes, reap
from tests.support.app import BY_WORDS, Harness
from tests.support.here import here
from tests.support.repositories import git
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.browser, pytest.mark.docker, pytest.mark.prefect]

SCRIPT = Path(demo.__file__).with_name("replies.jsonl")


NAP = """
from pathlib import Path
from blueprints.dsl import agentic, blueprint, deterministic
from nodes.commands import shell

def sleep(ctx, sandbox):
    woken = Path(__file__).with_name("woken").exists()
    return shell("echo two >> lines.txt" + ("" if woken else "; sleep 900"))(ctx, sandbox)

nap = blueprint("nap", "Sleep", [
    deterministic("one", "one", shell("echo one >> lines.txt; echo ran >> ~/one")),
    deterministic("two", "sleep", sleep),
    deterministic("three", "three", shell("echo three >> lines.txt; wc -l < ~/one")),
])
changes = blueprint("changes", "Change CI", [
    deterministic("one", "one", shell("echo one >> lines.txt")),
    agentic("work", "work", prompt=lambda ctx: "go"),
])
"""
GREET = """---
name: greet
description: Say hello
nodes:
  - name: hello
    run: echo hello >> lines.txt
---
"""
CI = ".github/workflows/ci.yml"
ENDS = ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("household")
    (made / "nap.py").write_text(NAP)
    (made / "greet.md").write_text(GREET)
    return made


@pytest.fixture(scope="module")
def api(home: Path) -> Iterator[str]:
    """The address of a server with everything that `harness up` brings, for one run at a time."""
    settings = Settings(home=home, server_port=0, max_runs=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PREFECT_HOME", str(home / "profile"))
        patch.setenv("HARNESS_ALLOWED_BLUEPRINTS", json.dumps([f"{home}/nap.py:*", f"{home}/*.md"]))
        for name, value in BY_WORDS.items():
            patch.setenv(name, value)
        bring_up(settings, lambda _: None)
        yield prefect_server.server_daemon(settings).up().url
        take_down(settings)
        reap(
            docker_engine(), sandbox_owner(settings), everything=True
        )  # a run that crashed keeps its files


def deployment(api: str, name: str) -> str:
    """The id of a deployment."""
    flow = name.removeprefix(UPKEEP_PREFIX)
    found = here().get(f"{api}/deployments/name/{flow}/{name}").raise_for_status().json()
    return str(found["id"])


def state(api: str, run: str) -> dict[str, str]:
    """The state of a flow run."""
    found: dict[str, str] = here().get(f"{api}/flow_runs/{run}").json()["state"]
    return found


def log(api: str, run: str) -> list[str]:
    """What the UI shows of the flow run and its task runs."""
    of_it = {"logs": {"flow_run_id": {"any_": [run]}}}
    return [str(one["message"]) for one in here().post(f"{api}/logs/filter", json=of_it).json()]


def is_over(home: Path, run: str) -> bool:
    """Whether the process that did the run last is gone."""
    asked = read_record(home / "runs" / run[-8:])
    return asked is not None and has_exited(asked.process)


def completed(api: str, run: str) -> None:
    """Wait until the flow run is completed."""
    wait_until(lambda: state(api, run)["type"] in ENDS)
    assert state(api, run)["type"] == "COMPLETED", state(api, run)


def test_a_run_is_started_watched_and_read_in_the_prefect_ui(
    api: str, page: Page, tmp_path: Path
) -> None:
    repository = make_repository(tmp_path / "opening-hours")
    ui = api.removesuffix("/api")
    page.goto(f"{ui}/deployments/deployment/{deployment(api, 'fix-tests')}/run")
    submit = page.get_by_role("button", name="Submit")
    submit.click()
    expect(page.get_by_text("is a required property").first).to_be_visible()
    fields = page.locator("textarea")
    fields.nth(0).fill(str(repository))
    fields.nth(1).fill("make the tests pass")
    fields.nth(3).fill(f"scripted/{SCRIPT}")
    with page.expect_response("**/create_flow_run") as asked:
        submit.click()
    run = str(asked.value.json()["id"])
    page.goto("about:blank")  # a page that shows a run under way asks and paints all the time
    completed(api, run)
    page.goto(f"{ui}/runs/flow-run/{run}")
    page.get_by_text("Task Runs", exact=True).click()
    page.get_by_role("link", name="verify/test (attempt 1)", exact=True).wait_for()
    page.get_by_text("Artifacts", exact=True).click()
    page.locator("a", has_text=f"report-{run[-8:]}").first.click()
    page.get_by_role("heading", name="fix-tests: success").last.wait_for()
    assert git(repository, "branch", "--list", "harness/*/fix-tests")


def test_schedules_fire_by_themselves_and_one_without_a_repository_says_so(api: str) -> None:
    with scheduled(api, "zz-reindex-memory") as whole, scheduled(api, "fix-tests") as without:
        wait_until(lambda: "COMPLETED" in whole())
        wait_until(lambda: "FAILED" in without())
        assert without()["FAILED"].startswith("no `repo` was given: write it in the form")


@contextmanager
def scheduled(api: str, name: str) -> Iterator[Callable[[], dict[str, str]]]:
    """Run a deployment each minute by a schedule, the first time in five seconds; gives the types
    of its runs' states with one message each.
    """
    chosen = deployment(api, name)
    schedules = f"{api}/deployments/{chosen}/schedules"
    soon_first = str(datetime.now(UTC) + timedelta(seconds=5))
    often = [{"active": True, "schedule": {"interval": 60, "anchor_date": soon_first}}]
    [made] = here().post(schedules, json=often).raise_for_status().json()

    def fired() -> dict[str, str]:
        of_it = {"deployments": {"id": {"any_": [chosen]}}}
        runs = here().post(f"{api}/flow_runs/filter", json=of_it).json()
        return {
            str(run["state_type"]): str(run["state"]["message"])
            for run in runs
            if run["auto_scheduled"]
        }

    try:
        yield fired
    finally:
        here().delete(f"{schedules}/{made['id']}").raise_for_status()


@pytest.fixture
def asleep(api: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A flow run whose second node sleeps in its sandbox."""
    monkeypatch.setenv("HARNESS_HOME", str(home))
    repository = make_repository(tmp_path / "opening-hours")
    asked = {"blueprint": f"{home}/nap.py:nap", "repo": str(repository)}
    run = start_deployment(api, "run-blueprint", asked)
    kept = home / "runs" / run[-8:] / CHECKPOINT
    wait_until(lambda: kept.exists() and '"one"' in kept.read_text())
    assert containers() == 1
    yield run
    # Where a test failed, the one place for runs is free again for the next.
    here().post(f"{api}/flow_runs/{run}/set_state", json={"state": {"type": "CANCELLING"}})


def containers() -> int:
    return len(list_sandboxes(docker_engine(), sandbox_owner(load_settings())))


def lines(tmp_path: Path, run: str) -> str:
    return git(tmp_path / "opening-hours", "show", f"harness/{run[-8:]}/nap:lines.txt")


def executions(run: str) -> list[str]:
    with configured_library() as opened:
        return [e.outcome for e in opened.list_executions() if e.run_id == run[-8:]]


def test_a_run_is_cancelled_in_the_prefect_ui_and_upkeep_waits_for_none(
    api: str, asleep: str, page: Page, tmp_path: Path
) -> None:
    completed(
        api, start_deployment(api, "zz-expire-approvals", {})
    )  # while the only place for runs is taken
    page.goto(f"{api.removesuffix('/api')}/runs/flow-run/{asleep}")
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Confirm").click()
    wait_until(lambda: containers() == 0)
    page.get_by_text("Cancelled", exact=True).first.wait_for()
    wait_until(lambda: executions(asleep) == ["neutral"])
    assert lines(tmp_path, asleep) == "one\ntwo"


def test_a_run_that_crashed_goes_on_when_it_is_retried_in_the_prefect_ui(
    api: str, asleep: str, home: Path, page: Page, tmp_path: Path
) -> None:
    asked = read_record(home / "runs" / asleep[-8:])
    assert asked is not None
    os.kill(pid_of(asked.process), signal.SIGKILL)
    wait_until(lambda: containers() == 0)
    wait_until(lambda: executions(asleep) == ["neutral"])  # the worker records what died
    (home / "woken").touch()
    page.goto(f"{api.removesuffix('/api')}/runs/flow-run/{asleep}")
    page.get_by_text("Crashed", exact=True).first.wait_for()
    page.get_by_role("button", name="Retry").click()
    with page.expect_response("**/set_state"):
        page.locator(".p-modal button", has_text="Retry").click()
    page.goto("about:blank")
    completed(api, asleep)
    assert lines(tmp_path, asleep) == "one\ntwo\nthree"
    report = read_report(home / "runs", asleep[-8:])
    assert [node.output.strip() for node in report.nodes] == ["", "", "1"], "one ran once"
    assert executions(asleep) == ["neutral"], "no agent worked"
    of_it = {"flow_runs": {"id": {"any_": [asleep]}}}
    nodes = here().post(f"{api}/task_runs/filter", json=of_it).json()
    states = sorted(node["state_type"] for node in nodes if node["name"] == "two")
    assert states == ["COMPLETED", "CRASHED"]


def test_a_blueprint_in_markdown_runs_from_the_form(api: str, home: Path, tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "opening-hours")
    asked = {"blueprint": f"{home}/greet.md", "repo": str(repository)}
    run = start_deployment(api, "run-blueprint", asked)
    completed(api, run)
    assert git(repository, "show", f"harness/{run[-8:]}/greet:lines.txt") == "hello"
    shown = here().get(f"{api}/flow_runs/{run}").json()["name"]
    assert shown.startswith("greet · opening-hours · ")


def changing(api: str, home: Path, place: Path, *replies: dict[str, object]) -> str:
    """A run whose agent says all of this."""
    (place / "replies.jsonl").write_text("".join(json.dumps(one) + "\n" for one in replies))
    asked = {
        "blueprint": f"{home}/nap.py:changes",
        "repo": str(make_repository(place / "opening-hours")),
        "model": f"scripted/{place}/replies.jsonl",
    }
    return start_deployment(api, "run-blueprint", asked)


def writes(path: str) -> dict[str, object]:
    """A model's reply that writes a file which decides what others run."""
    arguments = json.dumps({"path": path, "content": "on: push\n"})
    return {
        "content": "",
        "tool_calls": [{"function": {"name": "write_file", "arguments": arguments}}],
    }


def test_what_an_agent_may_not_do_waits_in_a_form_and_any_decision_goes_on(
    api: str, home: Path, page: Page, tmp_path: Path, harness: Harness,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("HARNESS_HOME", str(home))
    ci, lock, rc = writes(CI), writes("uv.lock"), writes(".envrc")
    done: dict[str, object] = {"content": "Done."}
    repository = tmp_path / "opening-hours"
    run = changing(api, home, tmp_path, ci, done, ci, lock, done, lock, rc, done)

    waiting(api, run, CI)
    page.goto(f"{api.removesuffix('/api')}/runs/flow-run/{run}")
    page.get_by_role("button", name="Resume").click()
    shown = page.locator(".p-modal")
    shown.get_by_text("CAPABILITY_VIOLATION").wait_for()
    for told in (
        "What will happen",
        "The agent native writes a protected file",
        CI,
        "on: push",
        "the agent would change",
        "repo:opening",
    ):
        assert told in shown.inner_text()
    shown.get_by_role("button", name="deny").press("Space")
    page.get_by_text("approve", exact=True).click()
    with page.expect_response("**/resume"):
        shown.get_by_role("button", name="Submit").click()
    page.goto("about:blank")

    by_hand = waiting(api, run, "uv.lock")
    env = {"HARNESS_HOME": str(home), "PREFECT_API_URL": api}
    said = harness("approvals", "approve", by_hand, env=env)
    assert f"{by_hand}: approved; run {run[-8:]} is resumed" in said.stdout, said.stderr

    late = waiting(api, run, ".envrc")
    with plan_dependencies(load_settings()) as shop:
        assert replace(shop.approvals, now=lambda: datetime.now(UTC) + timedelta(days=8)).expire()
    start_deployment(api, "zz-expire-approvals", {})
    wait_until(lambda: state(api, run)["type"] == "FAILED")
    assert state(api, run)["message"].startswith(
        f"nobody decided in time about write_file (approval {late}, until "
    )
    wait_until(lambda: is_over(home, run))  # with its process, its log has been sent
    logged = log(api, run)
    assert any("Finished in state Failed('nobody decided" in line for line in logged)
    assert not [line for line in logged if "Traceback" in line or "NoneType: None" in line]
    branch = f"harness/{run[-8:]}/changes"
    assert git(repository, "show", f"{branch}:{CI}") == "on: push"
    assert git(repository, "show", f"{branch}:uv.lock") == "on: push"
    assert git(repository, "show", f"{branch}:lines.txt") == "one", "it ran once"


def test_a_waiting_run_that_is_cancelled_in_the_prefect_ui_is_ended_by_upkeep(
    api: str, home: Path, page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_HOME", str(home))
    run = changing(api, home, tmp_path, writes(CI), {"content": "Done."})
    waiting(api, run, CI)
    page.goto(f"{api.removesuffix('/api')}/runs/flow-run/{run}")
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Confirm").click()
    wait_until(lambda: state(api, run)["type"] == "CANCELLED")
    start_deployment(api, "zz-reap-sandboxes", {})  # its schedule starts it every few minutes
    wait_until(lambda: read_report(home / "runs", run[-8:]).status == "cancelled")
    with plan_dependencies(load_settings()) as shop:
        assert not shop.approvals.list(run_id=run[-8:], pending=True)


def waiting(api: str, run: str, path: str) -> str:
    """Wait until the flow run is suspended for one call about this file; the approval's id."""
    found: list[str] = []

    def asks() -> bool:
        with plan_dependencies(load_settings()) as shop:
            pending = shop.approvals.list(run_id=run[-8:], pending=True)
        found[:] = [one.id for one in pending if one.arguments["path"] == path]
        return bool(found) and state(api, run)["name"] == "Suspended"

    wait_until(asks)
    return found[0]
