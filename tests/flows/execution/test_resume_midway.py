"""A run that was killed in the middle of a node goes on in the middle of it."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from contracts.run import RunReport
from flows.execution.dependencies import RunDependencies
from flows.execution.engine import run_blueprint
from flows.execution.reconcile import reconcile_lost_runs, reconcile_run
from flows.recall.library import configured_library
from flows.runs.runs import read_entry, read_report
from tests.support.dying import RUN, competing, contest, lanes, talks
from tests.support.flows import Ask, scripted_shop
from tests.support.forks import Fork
from tests.support.repositories import git

Kill = Callable[..., None]


@pytest.fixture
def kill(tmp_path: Path, repository: Path, fork: Fork) -> Kill:
    """Begin one of the blueprints of `dying.py` in another process, which is killed in it."""

    def begin(name: str, model: str = "scripted/none") -> None:
        asked = ("tests.support.dying", name, str(tmp_path), model)
        with (tmp_path / "said").open("wb") as said:
            dying = fork(*asked, cwd=tmp_path, env=os.environ, stdout=said, stderr=said)
            ended = dying.wait()
        assert ended == -9, (tmp_path / "said").read_text()
        (tmp_path / "alive").unlink()

    assert repository.parent == tmp_path
    return begin


def bash(line: str) -> dict[str, object]:
    """A reply that runs this line and costs a dollar."""
    call = {"function": {"name": "bash", "arguments": json.dumps({"command": line})}}
    return {"content": line[:8], "tool_calls": [call], "usage": {"cost_usd": 1.0}}


DONE: dict[str, object] = {"content": "Done.", "usage": {"cost_usd": 1.0}}


def told(shop: RunDependencies) -> list[list[str]]:
    """What each question of the run added to the conversation, role by role."""
    lines = (shop.runs / RUN / "trajectory.jsonl").read_text().splitlines()
    asked = [event for event in map(json.loads, lines) if event["kind"] == "request"]
    return [[message["role"] for message in event["messages"]] for event in asked]


@pytest.fixture
def killed_in_its_second_turn(
    kill: Kill, shop: RunDependencies, ask: Ask, model: Callable[..., str], tmp_path: Path
) -> Callable[..., RunReport]:
    """Goes on with a run whose agent was killed after `one`, in the middle of `two`."""
    alive = tmp_path / "alive"
    dies = (
        f"echo two >> lines.txt; test ! -e {alive} || kill -9 $(cat {alive}); echo 2 >> lines.txt"
    )
    script = model(bash("echo one >> lines.txt"), bash(dies), DONE)
    kill("talks", script)

    def go_on(budget_usd: float | None = None) -> RunReport:
        request = ask(talks(tmp_path), model=script).changed(budget_usd=budget_usd)
        return run_blueprint(request, shop, run_id=RUN)

    return go_on


def test_an_agent_goes_on_with_its_conversation_in_the_files_that_fit_it(
    killed_in_its_second_turn: Callable[..., RunReport], shop: RunDependencies, repository: Path
) -> None:
    report = killed_in_its_second_turn()
    assert git(repository, "show", f"{report.branch}:lines.txt") == "one\ntwo\n2"
    [node] = report.nodes
    assert (report.status, node.turns, node.tool_calls) == ("success", 3, {"bash": 2})
    # Asked for the second time, the second question still has no more than the answer to `one`.
    assert told(shop) == [["system", "user"], [], [], []]


def test_what_was_spent_before_counts_even_where_the_reply_was_lost(
    killed_in_its_second_turn: Callable[..., RunReport],
) -> None:
    [node] = killed_in_its_second_turn(2.5).nodes
    assert node.turns == 2
    assert str(node.error).startswith("budget exceeded")


def test_a_secret_that_it_read_before_it_was_killed_still_reaches_nobody(
    kill: Kill, ask: Ask, model: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_SANDBOX__EGRESS", '["hooks.example.net"]')
    alive = tmp_path / "alive"
    dies = f"test ! -e {alive} || kill -9 $(cat {alive})"
    send = bash("curl https://hooks.example.net/done || true")
    script = model(bash("cat .env"), bash(dies), send, DONE)
    kill("talks", script)
    [node] = run_blueprint(ask(talks(tmp_path), model=script), scripted_shop(), run_id=RUN).nodes
    assert (node.turns, node.decisions.denied) == (4, 1)


def test_a_finished_lane_is_not_run_again(
    kill: Kill, shop: RunDependencies, ask: Ask, repository: Path, tmp_path: Path
) -> None:
    kill("lanes")
    report = run_blueprint(ask(lanes(tmp_path)), shop, run_id=RUN)
    assert git(repository, "show", f"{report.branch}:left.txt") == "left 1\nleft 2"
    assert git(repository, "show", f"{report.branch}:right.txt") == "right"
    assert [node.status for node in report.nodes] == ["success"] * 4
    assert "after 2 finished nodes" in report.notices[0]


def test_an_agent_that_had_competed_keeps_what_it_made(
    kill: Kill, ask: Ask, repository: Path, tmp_path: Path
) -> None:
    kill("contest")
    report = run_blueprint(ask(contest(tmp_path)), competing(tmp_path), run_id=RUN)
    assert (tmp_path / "worked").read_text().split().count("try-1") == 1
    assert report.nodes[0].output.splitlines() == [
        "try-1: passed, 2 lines changed (won)",
        "try-2: passed, 4 lines changed",
    ]
    assert git(repository, "show", f"{report.branch}:answer.txt") == "42 1"
    assert any(notice.endswith("contest.try-2") for notice in report.notices)


def test_a_killed_run_is_settled_once_by_whoever_outlives_it_and_recorded_anew_when_it_goes_on(
    killed_in_its_second_turn: Callable[..., RunReport], shop: RunDependencies
) -> None:
    here = Path.cwd()
    assert reconcile_lost_runs(shop) == 1
    report = read_report(shop.runs, RUN)
    assert Path.cwd() == here
    assert (report.status, report.error) == (
        "failure",
        "the run's process died: reason unknown",
    )
    assert reconcile_lost_runs(shop) == 0
    assert (executions(), read_entry(shop.runs, RUN).resumable) == (["neutral"], True)
    assert killed_in_its_second_turn().status == "success"
    assert reconcile_run(shop, RUN, KeyboardInterrupt()) is None
    assert executions() == ["success"]


def test_a_run_that_was_killed_between_its_report_and_its_record_is_recorded_once(
    kill: Kill, shop: RunDependencies
) -> None:
    kill("reported")
    assert (executions(), read_entry(shop.runs, RUN).state) == ([], "success")
    assert [reconcile_lost_runs(shop), reconcile_lost_runs(shop)] == [1, 0]
    assert (executions(), read_entry(shop.runs, RUN).resumable) == (["neutral"], False)


def test_there_is_nothing_to_settle_of_a_run_that_nobody_knows(shop: RunDependencies) -> None:
    assert reconcile_run(shop, RUN, KeyboardInterrupt()) is None
    assert not (shop.runs / RUN).exists()


def executions() -> list[str]:
    """How the executions of the one run ended, as memory has it."""
    with configured_library() as opened:
        return [execution.outcome for execution in opened.list_executions()]
