"""Approvals: about one action, used once, expiring, taken back; there after a restart."""

import threading
from dataclasses import replace

import pytest

from contracts.errors import ApprovalDecided, ApprovalNotFound
from policy.log.event_log import EventLog
from policy.plan.approvals import Approvals
from tests.support.policy import MAIL, WHY, Clock, OpenLog


@pytest.fixture
def kept(log: EventLog, clock: Clock) -> Approvals:
    return Approvals(engine=log.engine, append=lambda d: log.append([d]), ttl_s=60, now=clock)


def test_a_question_is_asked_once_and_says_why(kept: Approvals) -> None:
    assert [kept.ask(MAIL).status, kept.ask(MAIL).status] == ["waiting", "waiting"]
    (found,) = kept.list(pending=True)
    assert (found.denied, found.arguments, found.step) == (WHY, {"to": "eve"}, 1)


def test_all_that_a_call_breaks_is_kept_with_the_question(kept: Approvals) -> None:
    also = replace(WHY, rule="C3", provenance=("a page", "step0"))
    kept.ask(replace(MAIL, denied=replace(WHY, others=(also,))))
    (found,) = kept.list()
    assert found.denied.denials == (replace(WHY, others=(also,)), also)


def test_an_approval_is_used_once(kept: Approvals) -> None:
    kept.ask(MAIL)
    kept.decide(kept.list()[0].id[:4], "approved", by="ann")
    assert kept.ask(MAIL).status == "approved"
    assert [kept.consume(MAIL), kept.consume(MAIL)] == [True, False]
    assert kept.ask(MAIL).status == "waiting"


def test_what_was_used_after_a_moment_may_be_used_again(kept: Approvals, clock: Clock) -> None:
    kept.ask(MAIL)
    kept.decide(kept.list()[0].id, "approved", by="ann")
    before = clock()
    kept.consume(MAIL)
    assert (
        kept.restore_used("r2", used_since=before)
        == kept.restore_used("r1", used_since=clock())
        == 0
    )
    assert kept.restore_used("r1", used_since=before) == 1
    assert [kept.consume(MAIL), kept.consume(MAIL)] == [True, False]


def test_of_many_who_use_it_at_once_one_does(kept: Approvals) -> None:
    kept.ask(MAIL)
    kept.decide(kept.list()[0].id, "approved", by="ann")
    used: list[bool] = []
    threads = [threading.Thread(target=lambda: used.append(kept.consume(MAIL))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(used) == [False] * 7 + [True]


def test_an_approval_is_good_for_no_other_action_and_no_other_run(kept: Approvals) -> None:
    kept.ask(MAIL)
    kept.decide(kept.list()[0].id, "approved", by="ann")
    for other in (replace(MAIL, action="b" * 64), replace(MAIL, run_id="r2")):
        assert kept.consume(other) is False
        assert kept.ask(other).status == "waiting"


def test_an_approval_expires_and_that_is_an_event(
    kept: Approvals, clock: Clock, log: EventLog
) -> None:
    kept.ask(MAIL)
    kept.decide(kept.list()[0].id, "approved", by="ann")
    for _ in range(61):
        clock()
    assert kept.consume(MAIL) is False
    assert kept.list(pending=True) == []
    told = [event.body["status"] for event in log.events(MAIL.run_id, kind="approval")]
    assert told == ["pending", "approved", "expired"]


def test_denied_stays_denied_and_says_why(kept: Approvals) -> None:
    kept.ask(MAIL)
    name = kept.list()[0].id
    kept.decide(name, "denied", by="ann", reason="not her")
    assert (kept.ask(MAIL).status, kept.ask(MAIL).reason) == ("denied", "ann: not her")
    with pytest.raises(ApprovalDecided, match=r"is denied by ann \(not her\)"):
        kept.decide(name, "approved", by="ann")


def test_an_approval_may_be_taken_back_before_it_is_used(kept: Approvals) -> None:
    kept.ask(MAIL)
    name = kept.list()[0].id
    kept.decide(name, "approved", by="ann")
    kept.decide(name, "denied", by="bob")
    assert kept.consume(MAIL) is False


@pytest.mark.parametrize("name", ["", "nope", "%"])
def test_an_id_that_names_none_is_refused(kept: Approvals, name: str) -> None:
    kept.ask(MAIL)
    with pytest.raises(ApprovalNotFound):
        kept.decide(name, "approved", by="ann")


def test_answers_are_there_after_a_restart_and_in_the_log(open_log: OpenLog, clock: Clock) -> None:
    log = open_log()
    first = Approvals(engine=log.engine, append=lambda d: log.append([d]), now=clock)
    first.ask(MAIL)
    first.decide(first.list()[0].id, "approved", by="ann")
    log.engine.dispose()
    again = open_log()
    second = Approvals(engine=again.engine, append=lambda d: again.append([d]), now=clock)
    assert second.consume(MAIL) is True
    told = [event.body["status"] for event in again.events("r1", kind="approval")]
    assert told == ["pending", "approved", "used"]
