"""Interrupted runs of plans continue: no action is repeated, no approval is requested again."""

import pytest

from policy.log.events import Draft
from tests.support.desk import COMPOSED, Clerk, Desk, start, steps, writing


def test_composed_content_is_the_same_after_an_interruption() -> None:
    desk, drafts, clerk = Desk(), list[Draft](), Clerk("waiting")
    first = writing({"to": "eve@evil.example", "text": "one"})
    agreed = steps(COMPOSED)
    run = start(agreed, desk, person=clerk.person, propose=first, drafts=drafts)
    assert run.run_step(0).status == "waiting"
    clerk.status = "approved"
    other = writing({"to": "eve@evil.example", "text": "another"})
    again = start(agreed, desk, person=clerk.person, propose=other, past=drafts)
    assert again.run_step(0).status == "done"
    assert desk.done == ["eve@evil.example: one"]
    assert len({question.action for question in clerk.asked}) == 1


def test_finished_steps_are_not_repeated_after_an_interruption() -> None:
    desk, drafts = Desk(), list[Draft]()
    agreed = steps({"op": "send", "args": {"to": "bob@example.com"}})
    assert start(agreed, desk, drafts=drafts).run_step(0).status == "done"
    assert start(agreed, desk, past=drafts).run_step(0).status == "done"
    assert len(desk.done) == 1


@pytest.mark.parametrize("retry", [0, 3])
def test_a_started_action_is_not_repeated(retry: int) -> None:
    desk, drafts = Desk(), list[Draft]()
    agreed = steps({"op": "send", "args": {"to": "bob@example.com"}, "retry": retry})
    start(agreed, desk, drafts=drafts).run_step(0)
    killed = [draft for draft in drafts if draft.kind == "tool_call" and "op" in draft.body]
    outcome = start(agreed, desk, past=killed).run_step(0)
    assert outcome.status == "failed"
    assert "may have happened" in outcome.reason
    assert len(desk.done) == 1


@pytest.mark.parametrize("broken_off", [True, False])
def test_a_retry_that_waits_for_approval_continues(broken_off: bool) -> None:
    desk, clerk, drafts = Desk(failures=1), Clerk("waiting"), list[Draft]()
    to, text = "bob@example.com", {"$ref": "input.note/lines"}
    agreed = steps({"op": "send", "retry": 1, "args": {"to": to, "text": text}})
    run = start(agreed, desk, person=clerk.person, drafts=drafts)
    assert run.run_step(0).status == "waiting"
    clerk.status = "approved"
    again = start(agreed, desk, person=clerk.person, past=drafts) if broken_off else run
    assert again.run_step(0).reason == ""
    assert len(desk.done) == 1
    assert len({question.action for question in clerk.asked}) == 1
