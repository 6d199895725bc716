"""What memory knows of a run that stopped, or that it was away for."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from blueprints.dsl import agentic, blueprint, deterministic
from contracts.errors import GitFailed, SandboxLost
from contracts.run import RunReport
from flows.library import library
from flows.memory_settings import load_memory_settings
from flows.run import run_blueprint
from flows.run_memory import memory
from flows.runs import read_report
from flows.settle import settle, settle_lost
from flows.workshop import Workshop
from memory.types import Content, Playbook
from nodes.types import Node
from tests.flows.conftest import DONE, Ask
from tests.flows.repositories import git
from tests.flows.test_resume import Outage

RUN = "abcd1234"
TASK = "rotate the keys"


@pytest.fixture(autouse=True)
def words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_MEMORY_EMBEDDING__PROVIDER", "none")
    monkeypatch.setenv("HARNESS_MEMORY_HOLDOUT_SHARE", "0")


def new_playbook() -> Playbook:
    with library() as opened:
        return opened.create(Content(title=TASK))


@pytest.fixture
def run(shop: Workshop, ask: Ask, model: Callable[..., str]) -> Callable[..., RunReport]:
    """Does a run of these nodes, in which agents give these replies, or goes on with it."""

    def run_it(*nodes: Node, said: str = "Done.") -> RunReport:
        made = blueprint("keys", "Keys", nodes)
        asked = replace(ask(made, model=model(DONE, {"content": said})), intent=TASK)
        return run_blueprint(asked, shop, run_id=RUN)

    return run_it


def agent(name: str) -> Node:
    return agentic(name, name, prompt=lambda _: "go on")


def test_a_run_that_stopped_tells_all_that_it_was_shown_and_no_more(
    run: Callable[..., RunReport], shop: Workshop, repository: Path
) -> None:
    first = new_playbook()
    breaks = deterministic("break", "break", Outage().adds("x", breaks=True))
    git(repository, "branch", f"harness/{RUN}")  # stands in the way of the run's own
    with pytest.raises(SandboxLost):
        run(agent("one"), breaks, agent("two"))
    settled = settle(shop, RUN, KeyboardInterrupt(), of="failure")
    assert settled is not None
    assert settled.surfaced.playbooks == (first.id,)
    second = new_playbook()
    goes_on = (agent("one"), breaks, agent("two"))
    with pytest.raises(GitFailed):
        run(*goes_on, said=f"I followed [playbook:{second.slug}].")
    assert read_report(shop.runs, RUN).surfaced.playbooks == (first.id, second.id)
    git(repository, "branch", "-D", f"harness/{RUN}")
    new_playbook()
    assert run(*goes_on).surfaced.playbooks == (first.id, second.id)
    with library() as opened:
        assert [e.playbook_id for e in opened.list_executions()] == [second.id]


def test_a_run_is_recorded_once_memory_is_back(
    run: Callable[..., RunReport], shop: Workshop, ask: Ask, model: Callable[..., str]
) -> None:
    gone = {"data": "postgresql://x@127.0.0.1:9/none"}
    away = replace(shop, memory=memory(load_memory_settings().model_copy(update=gone)))
    for run_id in ("aaaa1111", "bbbb2222"):
        request = ask(blueprint("keys", "Keys", [agent("one")]), model=model(DONE))
        assert run_blueprint(request, away, run_id=run_id).status == "success"
        forget_process(shop.runs / run_id)
    assert (settle_lost(away), executions()) == (0, [])
    (shop.runs / "aaaa1111" / "untold.json").write_text("{")  # and that stops no other
    assert [settle_lost(shop), settle_lost(shop)] == [1, 0]
    assert executions() == ["bbbb2222"]


def forget_process(own: Path) -> None:
    """As if another process had done the run."""
    asked = json.loads((own / "run.json").read_text())
    (own / "run.json").write_text(json.dumps(asked | {"process": ""}))


def executions() -> list[str | None]:
    with library() as opened:
        return [execution.run_id for execution in opened.list_executions()]
