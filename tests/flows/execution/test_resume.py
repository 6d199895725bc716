"""A run that stopped goes on where it stopped: same files, same branch, nothing done twice."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest

from blueprints.dsl import agentic, blueprint, deterministic, step, validate
from contracts.errors import GitFailed, ModelUnavailable, RunNotResumable, SandboxLost
from contracts.run import NodeResult, RunContext, RunReport
from contracts.sandbox import Command, Sandbox
from flows.execution.dependencies import RunDependencies
from flows.execution.engine import run_blueprint
from flows.execution.reconcile import reconcile_run
from flows.runs.home import CHECKPOINT
from flows.runs.request import FlowRun
from flows.runs.run_record import record_queued, run_lock
from flows.runs.runs import find_resumable, finished_report, list_runs, read_entry
from nodes.commands import shell
from nodes.types import Node
from tests.support.flow_runs import WRITE_42, Outage, three
from tests.support.flows import DONE, Ask
from tests.support.repositories import commit, git


@pytest.fixture
def stopped(shop: RunDependencies, ask: Ask) -> tuple[Outage, Callable[[], RunReport]]:
    """A run that lost its sandbox in its second node; calling it goes on."""
    outage = Outage()
    request = ask(three(outage))

    def again() -> RunReport:
        return run_blueprint(request, shop, run_id="abcd1234")

    with pytest.raises(SandboxLost):
        again()
    return outage, again


def test_a_run_goes_on_in_the_same_files_and_does_nothing_twice(
    stopped: tuple[Outage, Callable[[], RunReport]], repository: Path
) -> None:
    outage, again = stopped
    report = again()
    assert outage.done == ["one", "two", "two", "three"]
    assert (report.status, report.branch) == ("success", "harness/abcd1234/three")
    assert git(repository, "show", f"{report.branch}:lines.txt") == "one\ntwo\nthree"


def test_the_report_tells_that_the_run_went_on(
    stopped: tuple[Outage, Callable[[], RunReport]], shop: RunDependencies
) -> None:
    before = read_entry(shop.runs, "abcd1234")
    report = stopped[1]()
    assert (before.state, before.resumable) == ("failure", True)
    assert [node.name for node in report.nodes] == ["one", "two", "three"]
    assert "after 1 finished node; finished nodes are not run again" in report.notices[0]
    assert report.started_at == before.started_at
    assert read_entry(shop.runs, "abcd1234").resumable is False


def test_a_run_that_has_stopped_says_how_it_goes_on(
    stopped: tuple[Outage, Callable[[], RunReport]], shop: RunDependencies
) -> None:
    told = json.loads((shop.runs / "abcd1234" / "report.json").read_text())
    assert "`harness runs resume abcd1234` continues it" in told["notices"][0]


def test_a_finished_run_does_not_go_on(
    stopped: tuple[Outage, Callable[[], RunReport]], shop: RunDependencies
) -> None:
    _, again = stopped
    again()
    for going_on in (again, lambda: find_resumable(shop.runs, "abcd1234")):
        with pytest.raises(RunNotResumable, match="abcd1234 is finished"):
            going_on()


def test_a_running_run_does_not_go_on(
    stopped: tuple[Outage, Callable[[], RunReport]], shop: RunDependencies
) -> None:
    with run_lock(shop.runs, "abcd1234"):
        for going_on in (stopped[1], lambda: find_resumable(shop.runs, "abcd1234")):
            with pytest.raises(RunNotResumable, match="abcd1234 is running"):
                going_on()


def test_a_repository_that_moved_on_changes_nothing(
    stopped: tuple[Outage, Callable[[], RunReport]], repository: Path
) -> None:
    base = git(repository, "rev-parse", "HEAD")
    (repository / "more.txt").write_text("more\n")
    git(repository, "add", "--all")
    commit(repository, "More")
    report = stopped[1]()
    assert report.base_commit == base
    assert git(repository, "ls-tree", "--name-only", str(report.branch)) == "answer.txt\nlines.txt"


def test_a_repository_that_is_gone_is_named(
    stopped: tuple[Outage, Callable[[], RunReport]], repository: Path
) -> None:
    shutil.rmtree(repository)
    with pytest.raises(RunNotResumable, match=r"repository' is gone"):
        stopped[1]()


def test_a_blueprint_with_other_nodes_is_refused(
    stopped: tuple[Outage, Callable[[], RunReport]], shop: RunDependencies, ask: Ask
) -> None:
    made = three(Outage())
    other = replace(made, nodes=made.nodes[:2])
    with pytest.raises(RunNotResumable, match=r"has changed\. Its nodes were one, two, three"):
        run_blueprint(ask(other), shop, run_id="abcd1234")


def test_a_checkpoint_of_a_newer_harness_is_named(
    stopped: tuple[Outage, Callable[[], RunReport]], shop: RunDependencies
) -> None:
    path = shop.runs / "abcd1234" / CHECKPOINT
    path.write_text(json.dumps(json.loads(path.read_text()) | {"version": 2}))
    with pytest.raises(RunNotResumable, match="has version 2, this Harness reads 1"):
        stopped[1]()


def test_a_checkpoint_that_is_cut_short_is_named(
    stopped: tuple[Outage, Callable[[], RunReport]], shop: RunDependencies
) -> None:
    path = shop.runs / "abcd1234" / CHECKPOINT
    path.write_text(path.read_text()[:100])
    with pytest.raises(RunNotResumable, match="cannot be read"):
        stopped[1]()


def test_work_so_far_that_was_published_is_replaced_by_the_whole(
    shop: RunDependencies, ask: Ask, repository: Path
) -> None:
    outage = Outage()

    def breaks(ctx: RunContext, sandbox: Sandbox) -> NodeResult:
        if outage.left:
            outage.left -= 1
            sandbox.exec(Command(argv=("sh", "-c", "echo half >> lines.txt")))
            raise ModelUnavailable("no answer")
        return outage.adds("whole")(ctx, sandbox)

    request = ask(blueprint("two", "Two", [deterministic("do", "do", breaks)]))
    with pytest.raises(ModelUnavailable):
        run_blueprint(request, shop, run_id="abcd1234")
    assert git(repository, "show", "harness/abcd1234/two:lines.txt") == "half"
    run_blueprint(request, shop, run_id="abcd1234")
    assert git(repository, "show", "harness/abcd1234/two:lines.txt") == "whole"


def test_a_validate_node_goes_on_in_its_second_attempt(
    shop: RunDependencies, ask: Ask, model: Callable[..., str]
) -> None:
    """The fix of the first attempt is not asked for again: its script has but two replies."""
    outage = Outage()
    outage.left = 2

    def check(_: RunContext, sandbox: Sandbox) -> NodeResult:
        outage.done.append("check")
        outage.left -= 1
        if outage.left == 0:
            raise SandboxLost("the container is gone")
        right = sandbox.read_file("answer.txt") == b"42\n"
        return NodeResult.success() if right else NodeResult.failure("wrong")

    fix = agentic("mend", "mend it", prompt=lambda _: "mend it")
    nodes = [validate("check", "check", steps=[step("answer", check)], on_failure=fix)]
    request = ask(blueprint("checked", "Checked", nodes), model=model(WRITE_42, DONE))
    with pytest.raises(SandboxLost):
        run_blueprint(request, shop, run_id="abcd1234")
    report = run_blueprint(request, shop, run_id="abcd1234")
    assert (report.status, len(report.nodes[0].attempts)) == ("success", 2)
    assert outage.done == ["check", "check", "check"]


def test_a_resumed_agent_finds_its_script_where_it_left_it(
    shop: RunDependencies, ask: Ask, model: Callable[..., str], repository: Path
) -> None:
    outage = Outage()
    nodes: list[Node] = [
        agentic("first", "first", prompt=lambda _: "say something"),
        deterministic("break", "break", outage.adds("x", breaks=True)),
        agentic("second", "second", prompt=lambda _: "write the answer"),
    ]
    request = ask(blueprint("script", "Script", nodes), model=model(DONE, WRITE_42, DONE))
    with pytest.raises(SandboxLost):
        run_blueprint(request, shop, run_id="abcd1234")
    report = run_blueprint(request, shop, run_id="abcd1234")
    assert [node.turns for node in report.nodes] == [1, 0, 2]
    assert git(repository, "show", f"{report.branch}:answer.txt") == "42"


def test_a_run_is_asked_for_again_as_it_was(
    shop: RunDependencies, ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ops.py").write_text(
        "from blueprints.dsl import blueprint, deterministic\n"
        "from contracts.errors import SandboxLost\n"
        "def lose(ctx, sandbox):\n"
        "    raise SandboxLost('gone')\n"
        "lost = blueprint('lost', 'Lost', [deterministic('lose', 'lose it', lose)],\n"
        "    options={'depth': 'how deep'})\n"
    )
    from blueprints.find import find_blueprint

    monkeypatch.chdir(tmp_path)
    request = ask(find_blueprint("ops.py:lost"), repo="repository", push=True).changed(
        blueprint="ops.py:lost", options={"depth": "3"}, budget_usd=1.5
    )
    with pytest.raises(SandboxLost):
        run_blueprint(request, shop, run_id="abcd1234")
    monkeypatch.chdir("/")
    again = find_resumable(shop.runs, "abcd")
    assert again.request.changed(definition=request.definition) == request
    assert Path.cwd() == tmp_path


@pytest.mark.parametrize(("line", "status"), [("true", "success"), ("exit 3", "failure")])
def test_a_run_that_could_not_hand_over_its_work_does_so_later_as_it_ended(
    line: str, status: str, shop: RunDependencies, ask: Ask, repository: Path
) -> None:
    git(repository, "branch", "harness/abcd1234")  # stands in the way of harness/abcd1234/one
    nodes = [deterministic("one", "one", shell(f"echo one >> lines.txt; {line}"))]
    request = ask(blueprint("one", "One", nodes))
    with pytest.raises(GitFailed):
        run_blueprint(request, shop, run_id="abcd1234")
    git(repository, "branch", "-D", "harness/abcd1234")
    broken = replace(shop, open_sandbox=_never)
    report = run_blueprint(request, broken, run_id="abcd1234")
    assert (report.status, [node.status for node in report.nodes]) == (status, [status])
    assert git(repository, "show", f"{report.branch}:lines.txt") == "one"


def _never(*_: object) -> NoReturn:
    raise AssertionError("no sandbox is wanted")


DIES = """
import os, sys
from dataclasses import replace
from flows.execution.engine import run_blueprint
from tests.support.flows import scripted_shop
from tests.support.flow_runs import Outage, three
from tests.support.requested import requested

request = requested(three(Outage()), sys.argv[1])
shop = replace(scripted_shop(), open_sandbox=lambda *_: os._exit(9))
run_blueprint(request, shop, run_id="abcd1234")
"""


def test_a_run_killed_before_its_first_node_goes_on(
    shop: RunDependencies, ask: Ask, repository: Path
) -> None:
    died = subprocess.run((sys.executable, "-c", DIES, str(repository)), check=False)
    [entry] = list_runs(shop.runs, limit=1)
    assert (died.returncode, entry.state, entry.resumable) == (9, "lost", True)
    request = ask(three(Outage(times=0)))
    assert run_blueprint(request, shop, run_id="abcd1234").status == "success"


def test_a_run_that_ended_before_its_turn_came_begins_when_it_goes_on(
    shop: RunDependencies, ask: Ask
) -> None:
    request = ask(three(Outage(times=0)))
    record_queued(shop.runs, "abcd1234", request, FlowRun("flow-run", ""))
    with pytest.raises(RunNotResumable, match="is queued: it begins by itself"):
        find_resumable(shop.runs, "abcd")
    ended = reconcile_run(shop, "abcd1234", KeyboardInterrupt(), of="queued")
    assert ended
    assert (ended.status, ended.error) == ("cancelled", "it was cancelled before it began")
    assert read_entry(shop.runs, "abcd").resumable
    assert finished_report(shop.runs, "abcd1234") is None
    assert run_blueprint(request, shop, run_id="abcd1234").status == "success"
    assert not read_entry(shop.runs, "abcd").resumable
