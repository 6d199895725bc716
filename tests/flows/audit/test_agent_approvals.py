"""Denied calls of agents become approvals; an approved call is allowed once."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from contracts.model_access import GuardBounds, TokenSpec
from contracts.run import RunReport
from flows.audit.policies import POLICIES
from flows.execution.dependencies import RunDependencies
from flows.execution.engine import run_blueprint
from flows.runs.runs import find_resumable, read_entry
from policy.guard.guard import SECRET_FILES
from policy.guard.protected import default_patterns
from policy.log.data_flow import data_flow
from policy.log.event_log import EventLog
from policy.log.replay import replay
from policy.log.verify import verify
from policy.plan.approvals import Approvals
from policy.types import Approval, ApprovalRequest, ApprovalStatus
from providers.gateway_api import RunTerms
from tests.support.flows import Ask
from tests.support.guarded_runs import CHANGE_CI, CI, DONE, RUN, WORK, agent_blueprint, only, tool
from tests.support.repositories import git
from tests.support.running_gateway import running_gateway
from tests.support.waiting import LONG_S, wait_until

SAME_IN_OTHER_ORDER = tool("write_file", content="on: push\n", path=CI)
OTHER_CI = tool("write_file", path=CI, content="on: [push, pull_request]\n")

Model = Callable[..., str]


def request_of(approval: Approval) -> ApprovalRequest:
    return ApprovalRequest(
        action=approval.action,
        run_id=approval.run_id,
        step=approval.step,
        op=approval.op,
        arguments=approval.arguments,
        denied=approval.denied,
    )


def on_branch(report: RunReport, repository: Path) -> str:
    return git(repository, "show", f"{report.branch}:{CI}")


def test_a_denied_call_becomes_an_approval_and_the_run_waits(
    go: Callable[..., RunReport], approvals: Approvals, shop: RunDependencies, repository: Path
) -> None:
    report = go(CHANGE_CI, WORK, DONE)
    waits = only(approvals)
    assert (waits.node, waits.agent, waits.op) == ("work", "native", "write_file")
    assert waits.arguments == {"path": CI, "content": "on: push\n"}
    assert (waits.denied.rule, waits.denied.argument) == ("C4", "/path")
    assert waits.denied.provenance == ("repo:repository", "what the agent saw")
    assert report.status == "waiting"
    assert report.error is None
    assert (report.decisions.allowed, report.decisions.denied) == (1, 1)
    assert any(waits.id in notice for notice in report.notices)
    assert git(repository, "show", f"{report.branch}:answer.txt") == "42"
    assert read_entry(shop.runs, RUN).resumable
    trajectory = (shop.runs / RUN / "trajectory.jsonl").read_text()
    assert f"It waits for a person as approval {waits.id}" in trajectory


def test_an_approval_and_the_log_name_every_denial_of_a_call(
    go: Callable[..., RunReport], approvals: Approvals, log: EventLog
) -> None:
    go(tool("read_file", path=".env"), CHANGE_CI, DONE)
    assert [one.rule for one in only(approvals).denied.denials] == ["C4", "C3"]
    decision = log.events(RUN, kind="decision")[-1]
    said = "the agent has read secret:.env, which may not go to a protected file"
    assert decision.body["also"] == ({"rule": "C3", "reason": said},)
    assert replay(log.history(RUN), POLICIES).same


def test_an_approved_call_is_allowed_once(
    go: Callable[..., RunReport], approvals: Approvals, repository: Path, log: EventLog
) -> None:
    first = [CHANGE_CI, DONE]
    go(*first)
    approvals.decide(only(approvals).id, "approved", by="ann", reason="we talked")
    report = go(*first, SAME_IN_OTHER_ORDER, CHANGE_CI, DONE)
    assert [node.status for node in report.nodes] == ["success"]
    assert (report.decisions.allowed, report.decisions.denied) == (1, 1)
    assert on_branch(report, repository) == "on: push"
    assert only(approvals, "used").decided_by == "ann"
    assert report.status == "waiting", "the second time is another question"
    assert only(approvals).action == only(approvals, "used").action
    verdicts = [
        (e.body["verdict"], e.body.get("approved")) for e in log.events(RUN, kind="decision")
    ]
    assert verdicts == [("denied", False), ("denied", True), ("denied", False)]
    (vouched,) = log.events(RUN, kind="endorsement")[0].produces
    assert data_flow(log.history(RUN)).label(vouched).taint == frozenset()
    assert verify(log).ok
    again = replay(log.history(RUN), POLICIES)
    assert again.same, again.differences


def test_an_approved_call_whose_work_was_lost_may_be_repeated(
    go: Callable[..., RunReport], approvals: Approvals, repository: Path
) -> None:
    go(CHANGE_CI, DONE)
    waits = only(approvals)
    approvals.decide(waits.id, "approved", by="ann")
    assert approvals.consume(request_of(waits)), "then the process was killed"
    report = go(CHANGE_CI, DONE, CHANGE_CI, DONE)
    assert report.status == "success"
    assert on_branch(report, repository) == "on: push"
    assert only(approvals, "used").id == waits.id


def test_a_resumed_agent_continues_its_conversation_and_gets_the_decisions(
    go: Callable[..., RunReport], approvals: Approvals, shop: RunDependencies
) -> None:
    go(CHANGE_CI, DONE)
    approvals.decide(only(approvals).id, "approved", by="ann")
    go(CHANGE_CI, DONE, DONE)
    lines = (shop.runs / RUN / "trajectory.jsonl").read_text().splitlines()
    *_, asked = (line for line in map(json.loads, lines) if line["kind"] == "request")
    (said,) = asked["messages"]
    assert said["role"] == "user", "no other conversation is begun"
    assert 'approved, once: write_file {"content":"on: push' in said["content"]


def test_a_resumed_agent_still_counts_as_having_read_a_secret(
    go: Callable[..., RunReport], approvals: Approvals, log: EventLog
) -> None:
    first = (tool("read_file", path=".env"), CHANGE_CI, DONE)
    go(*first)
    approvals.decide(only(approvals).id, "approved", by="ann")
    report = go(*first, CHANGE_CI, DONE)
    assert report.decisions.allowed == 1, "else the approval is of another label"
    read = [event.body["question"]["read"] for event in log.events(RUN, kind="decision")]  # type: ignore[call-overload, index]  # JSON of ours
    assert read == [(), (".env",), (".env",)]
    assert replay(log.history(RUN), POLICIES).same


def test_a_run_whose_approval_was_denied_ends_without_calling_its_agent_again(
    go: Callable[..., RunReport], approvals: Approvals, shop: RunDependencies
) -> None:
    go(CHANGE_CI, WORK, DONE)
    approvals.decide(only(approvals).id, "denied", by="ann", reason="not now")
    report = go(CHANGE_CI, WORK, DONE)
    assert report.status == "success"
    assert "refused by ann: write_file in 'work' (not now)" in report.notices
    assert report.branch is not None
    assert not read_entry(shop.runs, RUN).resumable


def test_a_run_is_pushed_after_the_decision_and_not_before(
    shop: RunDependencies,
    ask: Ask,
    model: Model,
    approvals: Approvals,
    origin: Path,
) -> None:
    request = ask(agent_blueprint(), model=model(CHANGE_CI, WORK, DONE), push=True)
    assert not run_blueprint(request, shop, run_id=RUN).pushed
    assert git(origin, "for-each-ref") == ""
    approvals.decide(only(approvals).id, "denied", by="ann")
    assert run_blueprint(request, shop, run_id=RUN).pushed


@pytest.mark.parametrize("other", ["content", "late", "revoked"])
def test_an_approval_is_valid_for_its_exact_call_until_it_expires_or_is_revoked(
    go: Callable[..., RunReport], approvals: Approvals, other: str
) -> None:
    go(CHANGE_CI, DONE)
    approvals.decide(only(approvals).id, "approved", by="ann")
    if other == "late":
        replace(approvals, now=lambda: datetime.now(UTC) + timedelta(days=8)).expire()
    if other == "revoked":
        approvals.decide(only(approvals, "approved").id, "denied", by="ann")
    report = go(CHANGE_CI, DONE, OTHER_CI if other == "content" else CHANGE_CI, DONE)
    assert report.decisions.allowed == 0


def test_reading_a_secret_after_the_approval_invalidates_it(
    go: Callable[..., RunReport], approvals: Approvals
) -> None:
    go(CHANGE_CI, DONE)
    approvals.decide(only(approvals).id, "approved", by="ann")
    report = go(CHANGE_CI, DONE, tool("read_file", path=".env"), CHANGE_CI, DONE)
    assert (report.decisions.allowed, report.decisions.denied) == (1, 1)


def test_an_agent_waits_for_a_decision_if_the_setting_says_so(
    shop: RunDependencies, ask: Ask, model: Model, approvals: Approvals, repository: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("HARNESS_POLICY_WAIT_APPROVALS_S", "600")
    with deciding(approvals, "approved"):
        report = run_blueprint(
            ask(agent_blueprint(), model=model(CHANGE_CI, DONE)), shop, run_id=RUN
        )
    assert report.status == "success", report.error
    assert on_branch(report, repository) == "on: push"
    assert report.decisions.denied == 0


def test_all_calls_of_one_reply_share_one_wait(
    model: Model, approvals: Approvals, tmp_path: Path
) -> None:
    """While a person is waited for, the agent gets a ping each second."""
    calls = [{"id": f"c{n}", "function": {"name": "Write", "arguments": json.dumps(
        {"file_path": CI, "content": str(n)})}} for n in range(4)]  # fmt: skip
    bounds = GuardBounds(
        taint=("repo:x",), protected=default_patterns(), secret=SECRET_FILES, ask=True, wait_s=3
    )
    name = model({"content": "", "tool_calls": calls})
    terms = TokenSpec(node="work", agent="claude-code", model=name, bounds=bounds)
    body = {"messages": [{"role": "user", "content": "go"}], "stream": True}
    with (
        running_gateway(approvals=lambda: approvals) as gateway,
        gateway.run(RunTerms(run_id=RUN, trajectory=tmp_path / "t.jsonl")) as open_gate,
        open_gate(terms) as gate,
    ):
        headers = {"x-api-key": gate.token}
        url = f"{gateway.url}/v1/messages"
        answer = httpx.post(url, json=body, headers=headers, timeout=LONG_S).text
    assert len(approvals.list(run_id=RUN, pending=True)) == 4
    assert answer.count("event: ping") <= 4, "for each call by itself there would be 12"


def test_a_run_has_at_most_20_pending_approvals(
    go: Callable[..., RunReport], approvals: Approvals
) -> None:
    many = [tool("write_file", path=CI, content=f"{n}") for n in range(25)]
    report = go(*many, DONE)
    assert report.decisions.denied == 25
    assert len(approvals.list(run_id=RUN)) == 20


def test_no_approval_is_requested_if_the_setting_forbids_it(
    go: Callable[..., RunReport], approvals: Approvals, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_POLICY_ASK_FOR_AGENTS", "false")
    assert go(CHANGE_CI, WORK, DONE).status == "success"
    assert approvals.list() == []


def test_an_untrusted_intent_stays_untrusted_after_a_resume(
    shop: RunDependencies, ask: Ask, model: Model, approvals: Approvals
) -> None:
    request = ask(agent_blueprint(), model=model(CHANGE_CI, DONE, CHANGE_CI, OTHER_CI, DONE))
    issue = request.changed(intent=f"Change {CI}!", intent_from="issue:17",
                    blueprint=f"{__file__}:BLUEPRINT")  # fmt: skip
    run_blueprint(issue, shop, run_id=RUN)
    approvals.decide(only(approvals).id, "approved", by="ann")
    again = find_resumable(shop.runs, RUN)
    assert again.request.intent_from == "issue:17"
    report = run_blueprint(again.request, shop, run_id=RUN)
    assert (report.decisions.allowed, report.decisions.denied) == (1, 1)


BLUEPRINT = agent_blueprint()


@contextmanager
def deciding(approvals: Approvals, status: ApprovalStatus) -> Iterator[None]:
    """Decide about the first approval as soon as it is requested, in a thread."""

    def decide() -> None:
        first, *_ = wait_until(lambda: approvals.list(pending=True))
        approvals.decide(first.id, status, by="ann")

    person = threading.Thread(target=decide)
    person.start()
    try:
        yield
    finally:
        person.join()
