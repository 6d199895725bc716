"""Outputs of a run, done once on the forge after the sandbox closed, with a scripted model."""

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from blueprints.dsl import agentic, blueprint, comment, label, notify, open_issue, review
from blueprints.types import Blueprint
from contracts.errors import ForgeRefused
from contracts.run import RunReport
from flows.execution import outputs as outputs_room
from flows.execution.dependencies import RunDependencies
from flows.execution.engine import run_blueprint
from flows.execution.wiring import open_event_log
from flows.forge.outputs import Begun, Thread, add_labels, write_comment
from flows.forge.outputs import open_issue as open_issue_at
from flows.forge.reviews import write_review
from flows.runs.report import report_markdown
from flows.runs.request import ResolvedRequest
from nodes.outputs.proposals import LineComment, Review
from nodes.outputs.terms import Verdict
from nodes.types import Node
from tests.support.flows import Ask
from tests.support.forge_state import Issue
from tests.support.on_forge import forge_of, propose, with_forge
from tests.support.recorded_forge import Answer, RecordedForge
from tests.support.repositories import git

RUN = "abcd1234"
LOOK = agentic("look", "Look", prompt=lambda _: "Look at the issue", allowed_tools=["read"])
PROPOSED = {
    "answer": {"body": "@octocat fixes #12 <b>bold</b>"},
    "labels": {"add": ["bug", "admin"]},
    "more": {"title": "Also @octocat", "body": "See #12"},
}
ALL = (
    comment("answer", "Answer"),
    label("labels", "Label", ["bug", "question"]),
    open_issue("more", "Report", labels=["agent"]),
)


@pytest.fixture
def asked(
    ask: Ask,
    model: Callable[..., str],
    repository: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., ResolvedRequest]:
    """A run about an issue, whose agent proposes this."""
    monkeypatch.setenv("HARNESS_MEMORY_EMBEDDING__PROVIDER", "none")
    git(repository, "remote", "add", "origin", str(tmp_path / "origin.git"))

    def request(
        issue: Issue, *nodes: Node, proposed: object = PROPOSED, first: tuple[object, ...] = ()
    ) -> ResolvedRequest:
        made = ask(of(*nodes), model=model(*first, propose(proposed)))
        return made.changed(intent="Look", intent_from=f"issue:{issue.number}")

    return request


def of(*nodes: Node) -> Blueprint:
    return blueprint("triage-it", "Triage", [LOOK, *nodes])


def shown(report: RunReport) -> list[tuple[str, str, str]]:
    return [(one.node, one.status, one.reason) for one in report.outputs]


def test_what_an_agent_proposes_is_done_without_power(
    there: RecordedForge, shop: RunDependencies, asked: Callable[..., ResolvedRequest]
) -> None:
    issue = there.state.open_issue("It fails", "…", author="ann")
    report = run_blueprint(asked(issue, *ALL), with_forge(shop, there), run_id=RUN)
    assert (report.status, report.error) == ("success", None)
    [written] = issue.comments
    assert written.body.startswith(
        "`@octocat` fixes\u200b `#12` &lt;b&gt;bold&lt;/b&gt;\n\n*Written"
    )
    assert f"run {RUN}" in written.body
    assert issue.labels == ["bug"]
    opened = there.state.issues[-1]
    assert (opened.title, opened.labels) == ("Also @\u200boctocat", ["agent"])
    assert opened.body.startswith("See `#12`")
    assert shown(report) == [
        ("answer", "done", ""),
        ("labels", "done", ""),
        ("labels", "refused", "the blueprint does not allow this label"),
        ("more", "done", ""),
    ]
    assert all(one.page.startswith(there.url) for one in report.outputs if one.status == "done")
    assert "## Outputs" in report_markdown(report, "")


def test_what_an_earlier_process_wrote_is_found_and_not_written_again(
    there: RecordedForge,
) -> None:
    forge = forge_of(there)
    issue = there.state.open_issue("It fails", "…")
    thread, again = Thread("issue", issue.number), Begun("harness output 1", time.time())
    written = [
        (
            write_comment(forge, thread, "Hello", begun),
            open_issue_at(forge, "New", "…", ("bug",), begun),
            add_labels(forge, thread, ("bug",)),
        )
        for begun in (Begun("harness output 1"), again, again)
    ]
    assert written[1:] == [written[0]] * 2
    assert (len(issue.comments), issue.labels, len(there.state.issues)) == (1, ["bug"], 2)


def test_a_run_that_dies_in_the_middle_goes_on_and_writes_nothing_twice(
    gitea: RecordedForge,
    shop: RunDependencies,
    asked: Callable[..., ResolvedRequest],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    issue = gitea.state.open_issue("It fails", "…")
    request, dependencies = asked(issue, *ALL), with_forge(shop, gitea)
    for dies_after in ("write_comment", "add_labels", "open_issue"):
        with monkeypatch.context() as patched:
            patched.setattr(outputs_room, dies_after, dying_after(dies_after))
            with pytest.raises(KeyboardInterrupt):
                run_blueprint(request, dependencies, run_id=RUN)
    report = run_blueprint(request, dependencies, run_id=RUN)
    assert [one.status for one in report.outputs if one.status != "refused"] == ["done"] * 3
    assert (len(issue.comments), issue.labels, len(gitea.state.issues)) == (1, ["bug"], 2)


def dying_after(name: str) -> Callable[..., str]:
    """The function of this name; the process dies before it hears the answer."""
    real = getattr(outputs_room, name)

    def dies(*given: object) -> str:
        real(*given)
        raise KeyboardInterrupt

    return dies


@pytest.mark.parametrize("required", [False, True])
def test_a_refusal_of_the_forge_is_said_and_fails_only_a_required_output(
    required: bool,
    gitea: RecordedForge,
    shop: RunDependencies,
    asked: Callable[..., ResolvedRequest],
) -> None:
    issue = gitea.state.open_issue("It fails", "…")
    gitea.state.refuses = True
    request = asked(issue, comment("answer", "Answer", required=required))
    report = run_blueprint(request, with_forge(shop, gitea), run_id=RUN)
    [one] = report.outputs
    assert (one.status, "403" in one.reason) == ("refused", True)
    assert report.status == ("failure" if required else "success")
    said = str(report.error).startswith("output 'answer' is refused: no comment at http")
    assert said == required


def test_without_a_token_one_line_says_so_and_nothing_is_asked(
    shop: RunDependencies, asked: Callable[..., ResolvedRequest]
) -> None:
    report = run_blueprint(asked(Issue(7, "", ""), *ALL), shop, run_id=RUN)
    assert report.status == "success"
    assert [one.status for one in report.outputs] == ["proposed", "proposed", "refused", "proposed"]
    assert len([line for line in report.notices if "there is no token" in line]) == 1


def test_a_run_that_was_started_for_no_issue_answers_none(
    gitea: RecordedForge, shop: RunDependencies, asked: Callable[..., ResolvedRequest]
) -> None:
    request = asked(Issue(7, "", ""), *ALL).changed(intent_from="")
    report = run_blueprint(request, with_forge(shop, gitea), run_id=RUN)
    assert ("answer", "refused", "the run was not started for an issue") in shown(report)
    assert len(gitea.state.issues) == 1


def test_a_run_that_fails_does_nothing_outside(
    gitea: RecordedForge, shop: RunDependencies, asked: Callable[..., ResolvedRequest]
) -> None:
    issue = gitea.state.open_issue("It fails", "…")
    must = comment("must", "Must", required=True)
    report = run_blueprint(asked(issue, *ALL, must), with_forge(shop, gitea), run_id=RUN)
    assert (report.status, report.failed_node) == ("failure", "must")
    assert [one.status for one in report.outputs] == ["proposed", "proposed", "refused", "proposed"]
    assert gitea.requests == []


def test_nothing_leaves_once_an_agent_has_read_a_file_with_secrets(
    gitea: RecordedForge, shop: RunDependencies, asked: Callable[..., ResolvedRequest]
) -> None:
    issue = gitea.state.open_issue("It fails", "…")
    read = {"function": {"name": "read_file", "arguments": json.dumps({"path": ".env"})}}
    request = asked(issue, ALL[0], first=({"tool_calls": [read]},))
    report = run_blueprint(request, with_forge(shop, gitea), run_id=RUN)
    assert shown(report) == [
        ("answer", "refused", "an agent has read '.env', which may hold secrets")
    ]
    assert issue.comments == []


def test_the_event_log_holds_each_output_with_the_label_of_what_its_agent_saw(
    gitea: RecordedForge, shop: RunDependencies, asked: Callable[..., ResolvedRequest]
) -> None:
    issue = gitea.state.open_issue("It fails", "…")
    run_blueprint(asked(issue, *ALL), with_forge(shop, gitea), run_id=RUN)
    with open_event_log() as log:
        history = log.history()
        written = [event for event in log.events(RUN) if event.kind == "output"]
    assert [(e.body["node"], e.body["status"]) for e in written] == [
        ("answer", "done"),
        ("labels", "done"),
        ("more", "done"),
    ]
    [seen] = {name for event in written for name in event.consumes}
    assert f"issue:{issue.number}" in history.entities[seen].label.taint


def test_a_rate_limit_and_a_passing_failure_are_waited_for(
    gitea: RecordedForge, shop: RunDependencies, asked: Callable[..., ResolvedRequest]
) -> None:
    issue = gitea.state.open_issue("It fails", "…")
    gitea.troubles.append(Answer(429, "Too Many Requests", {"Retry-After": "0"}))
    report = run_blueprint(asked(issue, ALL[0]), with_forge(shop, gitea), run_id=RUN)
    assert [one.status for one in report.outputs] == ["done"]


PATCH = "@@ -1,3 +1,4 @@\n one\n-two\n+2\n+2.5\n three"
REVIEWED = {
    "check": {
        "body": "Mostly @fine.",
        "comments": [
            {"path": "numbers.txt", "line": 3, "body": "Why /this?"},
            {"path": "./numbers.txt", "line": 4, "body": "Context"},
            {"path": "numbers.txt", "line": 9, "body": "Not there"},
            {"path": "other.txt", "line": 1, "body": "Not there"},
        ],
    }
}


@pytest.fixture
def reviewing(
    there: RecordedForge, asked: Callable[..., ResolvedRequest], repository: Path
) -> Callable[..., ResolvedRequest]:
    """A run about an open pull request of its branch, which reviews it."""
    branch = git(repository, "symbolic-ref", "--short", "HEAD")
    pull = there.state.open_pull(branch, "main", "Count", "", draft=False)
    pull.commit, pull.patches = git(repository, "rev-parse", "HEAD"), {"numbers.txt": PATCH}

    def request(*verdicts: Verdict, proposed: object = REVIEWED) -> ResolvedRequest:
        node = review("check", "Review", verdicts=verdicts or ("comment",))
        return asked(Issue(7, "", ""), node, proposed=proposed)

    return request


def test_a_review_has_its_comments_on_lines_of_the_diff_only(
    there: RecordedForge, shop: RunDependencies, reviewing: Callable[..., ResolvedRequest]
) -> None:
    report = run_blueprint(reviewing(), with_forge(shop, there), run_id=RUN)
    [one] = report.outputs
    left_out = "left out, not in the diff: numbers.txt:9, other.txt:1"
    assert (one.status, one.reason) == ("done", left_out)
    lines = [line for written in there.pull.reviews for line in written.lines]
    assert [line[:2] for line in lines] == [("numbers.txt", 3), ("numbers.txt", 4)]
    assert lines[0][2].startswith("Why /this?")
    texts = [*(one.body for one in there.pull.reviews), *(c.body for c in there.pull.comments)]
    assert len([text for text in texts if text.startswith("Mostly `@fine`.")]) == 1
    assert {one.event for one in there.pull.reviews} <= {"COMMENT", ""}


def test_a_review_that_was_written_is_not_written_again(there: RecordedForge) -> None:
    pull = there.state.open_pull("feature", "main", "Count", "", draft=False)
    pull.patches = {"numbers.txt": PATCH}
    lines = (LineComment(path="numbers.txt", line=3, body="Why?"),)
    made = Review(verdict="comment", body="", lines=lines)
    pages = {
        write_review(forge_of(there), pull.number, made, "Fine", begun, reviewed=pull.commit).page
        for begun in (Begun("mark"), Begun("mark", time.time()))
    }
    assert len(pages) == 1
    assert len([line for one in pull.reviews for line in one.lines]) == 1


def test_an_agent_approves_only_where_the_blueprint_says_so(
    there: RecordedForge, shop: RunDependencies, reviewing: Callable[..., ResolvedRequest]
) -> None:
    approving = {"check": {"body": "Good.", "verdict": "approve"}}
    refused = run_blueprint(reviewing(proposed=approving), with_forge(shop, there), run_id=RUN)
    assert shown(refused) == [
        ("check", "refused", "the blueprint does not allow the verdict 'approve'")
    ]
    assert there.pull.reviews == []
    request = reviewing("comment", "approve", proposed=approving)
    done = run_blueprint(request, with_forge(shop, there), run_id="abcd1235")
    assert [one.status for one in done.outputs] == ["done"]
    assert [one.event.upper()[:7] for one in there.state.pulls[0].reviews] == ["APPROVE"]


def test_a_pull_request_that_has_moved_on_gets_the_text_only_and_no_verdict(
    there: RecordedForge,
) -> None:
    pull = there.state.open_pull("feature", "main", "Count", "", draft=False)
    pull.patches = {"numbers.txt": PATCH}
    lines = (LineComment(path="numbers.txt", line=3, body="Why?"),)
    made, begun = Review(verdict="comment", body="", lines=lines), Begun("mark")
    written = write_review(forge_of(there), pull.number, made, "Fine", begun, reviewed="c" * 40)
    assert written.left_out == "left out, the pull request has moved on: numbers.txt:3"
    assert not [line for one in pull.reviews for line in one.lines]
    approving = replace(made, verdict="approve")
    with pytest.raises(ForgeRefused, match="has moved on from cccccccccccc"):
        write_review(forge_of(there), pull.number, approving, "Fine", begun, reviewed="c" * 40)


TOLD = {"tell": {"subject": "Red: #12", "body": "<!channel> see https://x.test {{secret}}"}}
TELL = notify("tell", "Tell the team", "slack-webhook/team")


def test_a_notification_is_sent_through_its_block_without_a_forge(
    shop: RunDependencies, asked: Callable[..., ResolvedRequest]
) -> None:
    sent: list[tuple[str, str, str]] = []
    telling = replace(shop, send_notification=lambda *given: sent.append(given))
    report = run_blueprint(asked(Issue(7, "", ""), TELL, proposed=TOLD), telling, run_id=RUN)
    assert [(one.status, one.page) for one in report.outputs] == [("done", "slack-webhook/team")]
    [(block, subject, body)] = sent
    assert (block, subject) == ("slack-webhook/team", "Red: #\u200b12")
    assert body.startswith("\u2039!\u200bchannel\u203a see https:\u200b//x.test {\u200b{secret}")
    assert report.notices == ()


def test_a_notification_that_may_have_been_sent_is_not_sent_again(
    shop: RunDependencies, asked: Callable[..., ResolvedRequest]
) -> None:
    def dies(*_: str) -> None:
        raise KeyboardInterrupt

    request = asked(Issue(7, "", ""), TELL, proposed=TOLD)
    with pytest.raises(KeyboardInterrupt):
        run_blueprint(request, replace(shop, send_notification=dies), run_id=RUN)
    report = run_blueprint(request, replace(shop, send_notification=dies), run_id=RUN)
    assert shown(report) == [
        ("tell", "refused", "the run stopped while it was sent; it is not sent again")
    ]
