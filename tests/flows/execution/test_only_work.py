"""Only what agents, and nodes of the user, changed is on a run's branch."""

from collections.abc import Callable
from pathlib import Path

from blueprints.dsl import agentic, blueprint, deterministic
from blueprints.types import Blueprint
from contracts.run import NodeResult, RunContext
from contracts.sandbox import Sandbox
from flows.execution.dependencies import RunDependencies
from flows.execution.engine import run_blueprint
from nodes.projects.work import install_project, run_tests
from nodes.types import Node
from tests.support.agent_calls import call
from tests.support.flows import DONE, Ask
from tests.support.repositories import git

CHANGE = {"tool_calls": [call("write_file", {"path": "answer.txt", "content": "42\n"})]}
OPTIONS = {"install": "sh -c 'touch built.o; echo 0 > answer.txt'", "test": "touch tested.o"}


def building(*nodes: Node) -> Blueprint:
    install: list[Node] = [deterministic("install", "Install", install_project), *nodes]
    return blueprint("building", "-", install, options={"install": "-", "test": "-"})


def work() -> Node:
    return agentic("work", "Work", prompt=lambda _: "work")


def test_a_branch_holds_the_agents_change_and_nothing_that_a_build_wrote(
    shop: RunDependencies, ask: Ask, model: Callable[..., str], repository: Path
) -> None:
    definition = building(work(), deterministic("test", "Test", run_tests))
    request = ask(definition, model=model(CHANGE, DONE)).changed(options=OPTIONS)
    report = run_blueprint(request, shop, run_id="abcd2001")
    assert report.branch is not None, report.error
    changed = git(repository, "diff", "--name-only", f"main..{report.branch}")
    assert changed.split() == ["answer.txt"]
    assert report.notices == ()


def _dirty_and_fail(_: RunContext, sandbox: Sandbox) -> NodeResult:
    sandbox.write_file("junk.txt", b"junk")
    return NodeResult.failure("no")


def test_a_run_that_ended_before_any_agent_leaves_no_branch(
    shop: RunDependencies, ask: Ask, model: Callable[..., str], repository: Path
) -> None:
    definition = building(deterministic("fail", "Fail", _dirty_and_fail), work())
    request = ask(definition, model=model(DONE)).changed(options=OPTIONS)
    report = run_blueprint(request, shop, run_id="abcd2002")
    assert report.failed_node == "fail"
    assert report.branch is None
    assert git(repository, "branch", "--list", "harness/*") == ""
