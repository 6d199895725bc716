"""Runs that an error ends: exceptions of nodes, Ctrl-C, a lost sandbox."""

import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from blueprints.dsl import (
    agentic,
    blueprint,
    compete,
    deterministic,
    parallel,
    step,
    validate,
)
from contracts.errors import (
    SandboxFileMissing,
    SandboxLost,
)
from contracts.run import NodeResult, RunContext, RunReport
from contracts.sandbox import Sandbox
from flows.execution.dependencies import RunDependencies
from flows.execution.engine import run_blueprint
from flows.runs.request import ResolvedRequest
from flows.runs.runs import read_report
from nodes.commands import shell
from tests.support.flows import DONE
from tests.support.repositories import git

Ask = Callable[..., ResolvedRequest]

BUG = "node {!r} of the blueprint raised ZeroDivisionError: by zero"


def buggy(_: RunContext, __: Sandbox) -> NodeResult:
    raise ZeroDivisionError("by zero")


def raising(shop: RunDependencies, request: ResolvedRequest) -> RunReport:
    """The report of a run that a node's exception ends."""
    with pytest.raises(ZeroDivisionError):
        run_blueprint(request, shop, run_id="abcd1234")
    return read_report(shop.runs, "abcd1234")


def failed_lines(report: RunReport, place: str) -> list[str]:
    """The nodes that the report shows as raised, all with the error of the node `place`."""
    lines = [node for node in report.nodes if node.status == "failure"]
    assert all(str(line.error).startswith(BUG.format(place)) and line.raised for line in lines)
    return [line.name for line in lines]


def test_a_bug_in_a_blueprint_is_raised_and_reported(shop: RunDependencies, ask: Ask) -> None:
    broken = blueprint("broken", "Has a bug", [deterministic("bug", "raises", buggy)])
    with pytest.raises(ZeroDivisionError):
        run_blueprint(ask(broken), shop, run_id="abcd1234")
    error = read_report(shop.runs, "abcd1234").error or ""
    assert error.startswith("node 'bug' of the blueprint raised ZeroDivisionError: by zero (")
    assert re.search(r"test_run_errors\.py:\d+\)$", error)


def test_a_node_that_raises_is_in_the_report_as_the_failed_node(
    shop: RunDependencies, ask: Ask
) -> None:
    nodes = [
        deterministic("write", "writes", shell("echo 42 > answer.txt")),
        deterministic("bug", "raises", buggy),
    ]
    report = raising(shop, ask(blueprint("broken", "Has a bug", nodes)))
    assert [(node.name, node.status) for node in report.nodes] == [
        ("write", "success"),
        ("bug", "failure"),
    ]
    assert failed_lines(report, "bug") == ["bug"]
    assert report.failed_node == "bug"


def test_a_step_that_raises_is_reported_by_its_validate_node(
    shop: RunDependencies, ask: Ask, model: Callable[..., str]
) -> None:
    fix = agentic("mend", "mends", prompt=lambda _: "x")
    check = validate("check", "checks", steps=[step("test", buggy)], on_failure=fix)
    report = raising(shop, ask(blueprint("broken", "Has a bug", [check]), model=model(DONE)))
    assert failed_lines(report, "check/test (attempt 1)") == ["check"]
    assert report.failed_node == "check"


def test_a_node_that_raises_in_a_lane_is_reported_with_the_node_around_it(
    shop: RunDependencies, ask: Ask
) -> None:
    both = parallel("both", "both", [[deterministic("bug", "raises", buggy)]])
    report = raising(shop, ask(blueprint("broken", "Has a bug", [both])))
    assert failed_lines(report, "bug") == ["both", "bug"]
    assert report.failed_node == "both"


def test_a_check_that_raises_is_reported_by_its_compete_node(
    shop: RunDependencies, ask: Ask, model: Callable[..., str]
) -> None:
    race = compete("race", "races", prompt=lambda _: "x", steps=[step("test", buggy)])
    report = raising(shop, ask(blueprint("broken", "Has a bug", [race]), model=model(DONE, DONE)))
    assert report.failed_node == "race"
    assert [node.name for node in report.nodes if node.raised] == ["race"]


def test_a_file_that_a_node_misses_is_an_error_of_that_node(
    shop: RunDependencies, ask: Ask
) -> None:
    def read(_: RunContext, sandbox: Sandbox) -> NodeResult:
        return NodeResult.success(sandbox.read_file("no-such-file").decode())

    broken = blueprint("broken", "Has a bug", [deterministic("read", "reads", read)])
    with pytest.raises(SandboxFileMissing):
        run_blueprint(ask(broken), shop, run_id="abcd1234")
    report = read_report(shop.runs, "abcd1234")
    assert report.failed_node == "read"
    assert "raised SandboxFileMissing: " in str(report.nodes[0].error)


def test_a_node_that_raised_is_run_again_when_the_run_goes_on(
    shop: RunDependencies, ask: Ask
) -> None:
    fails = iter([ZeroDivisionError("by zero")])

    def once(_: RunContext, __: Sandbox) -> NodeResult:
        for error in fails:
            raise error
        return NodeResult.success()

    request = ask(blueprint("broken", "Has a bug", [deterministic("once", "raises once", once)]))
    assert raising(shop, request).failed_node == "once"
    report = run_blueprint(request, shop, run_id="abcd1234")
    assert (report.status, report.failed_node, report.nodes[0].raised) == ("success", None, False)


def test_an_error_that_a_node_raises_shows_no_secret(
    shop: RunDependencies, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    from flows.execution.wiring import build_dependencies

    def leak(_: RunContext, __: Sandbox) -> NodeResult:
        raise ZeroDivisionError(f"no access with {os.environ['MY_TOKEN']}")

    monkeypatch.setenv("MY_TOKEN", "abcdef123456")
    own = replace(shop, redact=build_dependencies().redact)
    report = raising(own, ask(blueprint("leak", "Leaks", [deterministic("leak", "leaks", leak)])))
    assert "no access with [redacted]" in str(report.nodes[0].error)


def test_an_interrupted_run_is_cancelled_and_keeps_its_work(
    shop: RunDependencies, ask: Ask, repository: Path
) -> None:
    def interrupted(_: RunContext, sandbox: Sandbox) -> NodeResult:
        sandbox.write_file("answer.txt", b"so far\n")
        raise KeyboardInterrupt

    nodes = [deterministic("stop", "is interrupted", interrupted)]
    with pytest.raises(KeyboardInterrupt):
        run_blueprint(ask(blueprint("stopped", "Stops", nodes)), shop, run_id="abcd1234")
    report = read_report(shop.runs, "abcd1234")
    assert (report.status, report.error) == ("cancelled", "it was cancelled")
    assert git(repository, "show", f"{report.branch}:answer.txt") == "so far"


@pytest.mark.parametrize(
    ("why", "status", "says"),
    [
        (KeyboardInterrupt(), "cancelled", "it was cancelled"),
        (ZeroDivisionError("by zero"), "failure", "node 'end' of the blueprint raised Zero"),
    ],
)
def test_work_that_cannot_be_taken_out_hides_nothing_of_why_a_run_ended(
    shop: RunDependencies, ask: Ask, why: BaseException, status: str, says: str
) -> None:
    def end(ctx: RunContext, sandbox: Sandbox) -> NodeResult:
        shell("rm -rf .git")(ctx, sandbox)
        raise why

    with pytest.raises(type(why)):
        run_blueprint(
            ask(blueprint("ends", "Ends", [deterministic("end", "ends", end)])),
            shop,
            run_id="abcd1234",
        )
    report = read_report(shop.runs, "abcd1234")
    assert (report.status, (report.error or "").startswith(says)) == (status, True)
    assert "the work could not be put on its branch: the work cannot be taken out" in str(
        report.notices
    )


def test_a_lost_sandbox_is_reported_as_such(shop: RunDependencies, ask: Ask) -> None:
    def lost(_: RunContext, __: Sandbox) -> NodeResult:
        raise SandboxLost("the container is gone")

    nodes = [deterministic("lose", "loses it", lost)]
    with pytest.raises(SandboxLost):
        run_blueprint(ask(blueprint("lost", "Is lost", nodes)), shop, run_id="abcd1234")
    report = read_report(shop.runs, "abcd1234")
    assert (report.error, report.failed_node) == ("the container is gone", None)


def test_the_work_is_taken_out_of_a_sandbox_that_lives_though_it_is_called_lost(
    shop: RunDependencies, ask: Ask, repository: Path
) -> None:
    """As where the engine's disk is too full for a checkpoint."""

    def write(_: RunContext, sandbox: Sandbox) -> NodeResult:
        sandbox.write_file("answer.txt", b"so far\n")
        raise SandboxLost("no space left on device")

    nodes = [deterministic("write", "writes", write)]
    with pytest.raises(SandboxLost):
        run_blueprint(ask(blueprint("full", "Full", nodes)), shop, run_id="abcd1234")
    report = read_report(shop.runs, "abcd1234")
    assert report.error == "no space left on device"
    assert git(repository, "show", f"{report.branch}:answer.txt") == "so far"
