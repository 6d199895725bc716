"""What comes of a run's work that git, or its size, or its agents keep from coming out."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Lock

import pytest

from blueprints.dsl import blueprint, compete, deterministic, step
from blueprints.library.implement import implement
from contracts.errors import BadInput
from contracts.run import NodeReport, NodeResult, RunContext, RunReport
from contracts.sandbox import Command, Sandbox
from flows.execution.delivery import report_pull
from flows.execution.dependencies import RunDependencies
from flows.execution.engine import run_blueprint
from flows.runs.report import summary_markdown
from flows.runs.request import ResolvedRequest
from nodes.commands import shell
from nodes.text import quote_untrusted
from tests.support.flows import DONE
from tests.support.forge_power import power_of
from tests.support.repositories import git

Ask = Callable[..., ResolvedRequest]


def test_work_that_git_ignores_is_no_silence(shop: RunDependencies, ask: Ask) -> None:
    nodes = [
        deterministic("do", "do it", shell("echo kept.txt > .git/info/exclude; touch kept.txt"))
    ]
    report = run_blueprint(ask(blueprint("hides", "Hides", nodes)), shop, run_id="abcd1234")
    assert report.branch is None
    assert report.notices == ("not in the branch, because git ignores it: kept.txt",)


def test_the_longest_intent_is_cut_in_the_commit_message(
    shop: RunDependencies, ask: Ask, repository: Path
) -> None:
    made = blueprint("writes", "Writes", [deterministic("do", "do it", shell("touch new.txt"))])
    request = ask(made).changed(intent="Write. " * 2_800)
    report = run_blueprint(request, shop, run_id="abcd1234")
    said = git(repository, "log", "-1", "--format=%B", str(report.branch))
    assert said.startswith("harness: Write. Write.")
    assert len(said) < 10_000


@pytest.mark.parametrize("intent", ["a\0b", "caf\udce9"])
def test_an_intent_that_is_no_text_is_refused(shop: RunDependencies, ask: Ask, intent: str) -> None:
    made = blueprint("writes", "Writes", [deterministic("do", "do it", shell("touch new.txt"))])
    with pytest.raises(BadInput, match="the intent holds"):
        shop.check_request(ask(made).changed(intent=intent))


@pytest.mark.parametrize(
    "noted",
    [
        lambda asked: asked.changed(model="m\udcff"),
        lambda asked: asked.changed(intent_from="f\udcff"),
        lambda asked: asked.changed(options={"test": "\udcff"}),
    ],
)
def test_what_is_noted_beside_the_intent_is_text_too(
    shop: RunDependencies, ask: Ask, noted: Callable[[ResolvedRequest], ResolvedRequest]
) -> None:
    nodes = [deterministic("do", "do it", shell("true"))]
    made = blueprint("writes", "Writes", nodes, options={"test": "what tests it"})
    with pytest.raises(BadInput, match=r"holds '\\udcff': it must be text"):
        shop.check_request(noted(ask(made)))


def test_a_blueprint_that_needs_an_intent_is_not_begun_without(
    shop: RunDependencies, ask: Ask
) -> None:
    with pytest.raises(BadInput, match="blueprint 'implement' does what the intent says"):
        shop.check_request(ask(implement).changed(intent=" "))


def test_one_that_lost_and_broke_its_repository_ends_no_run(
    shop: RunDependencies, ask: Ask, model: Callable[..., str], repository: Path
) -> None:
    first = Lock()

    def answer(_: RunContext, fork: Sandbox) -> NodeResult:
        if first.acquire(blocking=False):
            fork.write_file("answer.txt", b"42\n")
            return NodeResult.success()
        fork.exec(Command(argv=("rm", "-rf", ".git")))
        return NodeResult.failure("gave up")

    tried = compete("try", "Try", 2, prompt=lambda _: "go", steps=[step("answer", answer)])
    request = ask(blueprint("contest", "Contest", [tried]), model=model(DONE, DONE))
    report = run_blueprint(request, shop, run_id="abcd1234")
    assert report.status == "success"
    assert git(repository, "show", f"{report.branch}:answer.txt") == "42"
    [notice] = report.notices
    assert " could not be saved: the work cannot be taken out" in notice


REPORT = RunReport(
    run_id="3f9a0c1d",
    blueprint="fix-tests",
    status="success",
    intent="fixes #12\n/close\n@everyone https://github.com/team/app/issues/7",
    branch="harness/3f9a0c1d/fix-tests",
    nodes=(NodeReport(name="fix", type="agentic", status="failure", error="/merge @all"),),
)


def test_a_pull_request_says_what_was_asked_and_what_was_done() -> None:
    quote = quote_untrusted("Crash\nIt crashes.", "issue 7")
    nodes = (
        NodeReport(name="implement", type="agentic", status="success", output="It was the loop."),
        NodeReport(name="commit", type="deterministic", status="success", output="ab12cd3"),
    )
    pull = report_pull(
        replace(REPORT, intent=f"Do what issue 7 asks for.\n\n{quote}", nodes=nodes), draft=True
    )
    assert pull.title == "fix-tests: Do what issue 7 asks for: Crash"
    assert pull.body.startswith("It was the loop.\n\n# fix-tests: success")
    assert "ab12cd3" not in pull.body


def test_nothing_from_a_run_has_power_in_a_pull_request() -> None:
    pull = report_pull(REPORT, draft=True)
    assert power_of(pull.title) == []
    assert power_of(pull.body) == []
    assert power_of(summary_markdown(REPORT))
