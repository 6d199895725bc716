"""Memory's record of runs that stopped, or that ran while memory was unavailable."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from blueprints.dsl import agentic, blueprint, deterministic
from contracts.errors import GitFailed, SandboxLost
from contracts.run import RunReport
from flows.config.memory import load_memory_settings
from flows.execution.dependencies import RunDependencies
from flows.execution.engine import run_blueprint
from flows.execution.reconcile import reconcile_lost_runs, reconcile_run
from flows.recall.library import configured_library
from flows.recall.playbooks import run_memory
from flows.runs.runs import read_report
from memory.types import Execution, Playbook, PlaybookContent
from nodes.commands import shell
from nodes.types import Node
from tests.support.flow_runs import Outage
from tests.support.flows import DONE, Ask
from tests.support.guarded_runs import CHANGE_CI, CI
from tests.support.repositories import git

RUN = "abcd1234"
TASK = "rotate the keys"

Replies = Sequence[Mapping[str, object]]


@pytest.fixture(autouse=True)
def words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_MEMORY_EMBEDDING__PROVIDER", "none")
    monkeypatch.setenv("HARNESS_MEMORY_HOLDOUT_SHARE", "0")


def new_playbook() -> Playbook:
    with configured_library() as opened:
        return opened.create(PlaybookContent(title=TASK))


@pytest.fixture
def run(shop: RunDependencies, ask: Ask, model: Callable[..., str]) -> Callable[..., RunReport]:
    """Does a run of these nodes, in which agents give these replies, or goes on with it."""

    def run_it(
        *nodes: Node, replies: Replies = (DONE,), later: bool = False, run_id: str = RUN
    ) -> RunReport:
        made = blueprint("keys", "Keys", nodes, verdict_later=later)
        asked = ask(made, model=model(*replies)).changed(intent=TASK)
        return run_blueprint(asked, shop, run_id=run_id)

    return run_it


def agent(name: str) -> Node:
    return agentic(name, name, prompt=lambda _: "go on")


def test_a_resumed_run_reports_everything_it_was_shown(
    run: Callable[..., RunReport], shop: RunDependencies, repository: Path
) -> None:
    first = new_playbook()
    breaks = deterministic("break", "break", Outage().adds("x", breaks=True))
    git(repository, "branch", f"harness/{RUN}")  # stands in the way of the run's own
    with pytest.raises(SandboxLost):
        run(agent("one"), breaks, agent("two"))
    settled = reconcile_run(shop, RUN, KeyboardInterrupt(), of="failure")
    assert settled is not None
    assert settled.surfaced.playbooks == (first.id,)
    second = new_playbook()
    goes_on = (agent("one"), breaks, agent("two"))
    with pytest.raises(GitFailed):
        run(*goes_on, replies=(DONE, {"content": f"I followed [playbook:{second.slug}]."}))
    assert read_report(shop.runs, RUN).surfaced.playbooks == (first.id, second.id)
    git(repository, "branch", "-D", f"harness/{RUN}")
    new_playbook()
    assert run(*goes_on).surfaced.playbooks == (first.id, second.id)
    with configured_library() as opened:
        assert [e.playbook_id for e in opened.list_executions()] == [second.id]


def test_a_run_that_waited_for_an_approval_is_recorded_with_its_final_status(
    run: Callable[..., RunReport], shop: RunDependencies
) -> None:
    nodes = (agent("one"), deterministic("look", "look", shell(f"test -e {CI}")))
    report = run(*nodes, replies=(CHANGE_CI, DONE))
    assert (report.status, report.failed_node) == ("failure", None)
    assert executions()[RUN].outcome == "neutral"
    with shop.open_approvals() as approvals:
        (asked,) = approvals.list(run_id=RUN)
        approvals.decide(asked.id, "approved", by="ann")
    assert run(*nodes, replies=(CHANGE_CI, DONE, CHANGE_CI, DONE)).status == "success"
    assert executions()[RUN].outcome == "success"


def test_a_success_waits_for_a_verdict_if_the_blueprint_says_so(
    run: Callable[..., RunReport],
) -> None:
    wrong = deterministic("check", "check", shell("false"))
    run(agent("one"), run_id="aaaa1111")
    run(agent("one"), run_id="bbbb2222", later=True)
    assert run(agent("one"), wrong, run_id="cccc3333", later=True).failed_node == "check"
    kept = executions()
    assert kept["aaaa1111"].outcome == "success"
    assert (kept["bbbb2222"].outcome, kept["bbbb2222"].expires_at is None) == ("pending", False)
    assert kept["cccc3333"].outcome == "failure"


def test_a_run_is_recorded_when_memory_answers_again(
    run: Callable[..., RunReport], shop: RunDependencies, ask: Ask, model: Callable[..., str]
) -> None:
    gone = {"data": "postgresql://x@127.0.0.1:9/none"}
    away = replace(shop, memory=run_memory(load_memory_settings().model_copy(update=gone)))
    for run_id in ("aaaa1111", "bbbb2222"):
        request = ask(blueprint("keys", "Keys", [agent("one")]), model=model(DONE))
        assert run_blueprint(request, away, run_id=run_id).status == "success"
        forget_process(shop.runs / run_id)
    assert (reconcile_lost_runs(away), executions()) == (0, {})
    (shop.runs / "aaaa1111" / "untold.json").write_text("{")  # and that stops no other
    assert [reconcile_lost_runs(shop), reconcile_lost_runs(shop)] == [1, 0]
    assert list(executions()) == ["bbbb2222"]


def forget_process(own: Path) -> None:
    """As if another process had done the run."""
    asked = json.loads((own / "run.json").read_text())
    (own / "run.json").write_text(json.dumps(asked | {"process": ""}))


def executions() -> dict[str | None, Execution]:
    """What memory has of each run."""
    with configured_library() as opened:
        return {execution.run_id: execution for execution in opened.list_executions()}
