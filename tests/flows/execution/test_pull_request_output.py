"""A blueprint whose agent proposes the pull request of its own work."""

from collections.abc import Callable
from pathlib import Path

import pytest

from blueprints.dsl import agentic, blueprint, comment, pull_request
from flows.execution.dependencies import RunDependencies
from flows.execution.engine import run_blueprint
from flows.runs.request import ResolvedRequest
from tests.support.flows import Ask
from tests.support.on_forge import RUN, propose, with_forge, write
from tests.support.recorded_forge import RecordedForge
from tests.support.repositories import git

PROPOSED = {
    "open": {"title": "Answer 42, fixes #12", "body": "Closes #12. @octocat"},
    "say": {"body": "Opened."},
}


@pytest.fixture
def asked(
    ask: Ask, model: Callable[..., str], origin: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., ResolvedRequest]:
    """A run without --push, whose agent writes a file, or not, and proposes."""
    monkeypatch.setenv("HARNESS_MEMORY_EMBEDDING__PROVIDER", "none")
    made = blueprint(
        "answer",
        "Answer",
        [
            agentic("work", "Work", prompt=lambda _: "Write 42 into answer.txt"),
            pull_request("open", "Open it", draft=False),
            comment("say", "Say so", on="pull_request"),
        ],
    )

    def request(*, writes: bool = True, proposed: object = PROPOSED) -> ResolvedRequest:
        replies = [write("42"), propose(proposed)] if writes else [propose(proposed)]
        return ask(made, model=model(*replies)).changed(until_green=0)

    return request


def test_the_work_is_pushed_and_its_pull_request_has_the_agents_words_without_power(
    there: RecordedForge, shop: RunDependencies, asked: Callable[..., ResolvedRequest], origin: Path
) -> None:
    report = run_blueprint(asked(), with_forge(shop, there), run_id=RUN)
    assert (report.status, report.pushed, report.pull_request) == (
        "success",
        True,
        report.outputs[0].page,
    )
    assert git(origin, "show", f"{report.branch}:answer.txt") == "42"
    assert there.pull.title == "Answer 42, fixes\u200b #\u200b12"
    assert there.pull.body.startswith("Closes\u200b `#12`. `@octocat`\n\n*Written by an agent")
    assert not there.pull.draft
    [said] = there.pull.comments
    assert said.body.startswith("Opened.")


def test_a_run_that_changed_nothing_opens_none(
    gitea: RecordedForge, shop: RunDependencies, asked: Callable[..., ResolvedRequest]
) -> None:
    report = run_blueprint(asked(writes=False), with_forge(shop, gitea), run_id=RUN)
    assert (report.status, report.pushed, gitea.state.pulls) == ("success", False, [])
    assert report.outputs[0].reason == "the run changed nothing"


def test_an_agent_that_proposes_none_pushes_nothing(
    gitea: RecordedForge, shop: RunDependencies, asked: Callable[..., ResolvedRequest], origin: Path
) -> None:
    report = run_blueprint(asked(proposed={}), with_forge(shop, gitea), run_id=RUN)
    assert (report.status, report.pushed) == ("success", False)
    assert (gitea.state.pulls, git(origin, "branch", "--list")) == ([], "")


def test_without_a_token_nothing_is_pushed_and_one_line_says_why(
    shop: RunDependencies, asked: Callable[..., ResolvedRequest], origin: Path
) -> None:
    report = run_blueprint(asked(), shop, run_id=RUN)
    assert [one.status for one in report.outputs] == ["proposed", "proposed"]
    assert (report.pushed, git(origin, "branch", "--list")) == (False, "")
    assert len([line for line in report.notices if "there is no token" in line]) == 1


def test_a_refused_pull_request_is_said_once_and_the_push_stays(
    gitea: RecordedForge, shop: RunDependencies, asked: Callable[..., ResolvedRequest]
) -> None:
    gitea.state.refuses = True
    report = run_blueprint(asked(), with_forge(shop, gitea), run_id=RUN)
    assert (report.status, report.pushed) == ("success", True)
    assert report.outputs[0].status == "refused"
    assert "403" in report.outputs[0].reason
