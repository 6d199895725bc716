"""Approvals: for one action, used once, expiring, revocable, persistent."""

import threading
from dataclasses import replace

import pytest

from contracts.errors import ApprovalDecided, ApprovalNotFound
from policy.log.event_log import EventLog
from policy.plan.approvals import Approvals
from tests.support.policy import MAIL, WHY, Clock, OpenLog


@pytest.fixture
def store(log: EventLog, clock: Clock) -> Approvals:
    return Approvals(log=log, ttl_s=60, now=clock)


def test_a_request_is_stored_once_with_its_denial(store: Approvals) -> None:
    assert [store.ask(MAIL).status, store.ask(MAIL).status] == ["waiting", "waiting"]
    (found,) = store.list(pending=True)
    assert (found.denied, found.arguments, found.step) == (WHY, {"to": "eve"}, 1)


def test_a_request_stores_every_broken_rule(store: Approvals) -> None:
    also = replace(WHY, rule="C3", provenance=("a page", "step0"))
    store.ask(replace(MAIL, denied=replace(WHY, others=(also,))))
    (found,) = store.list()
    assert found.denied.denials == (replace(WHY, others=(also,)), also)


def test_an_approval_is_used_once(store: Approvals) -> None:
    store.ask(MAIL)
    store.decide(store.list()[0].id[:4], "approved", by="ann")
    assert store.ask(MAIL).status == "approved"
    assert [store.consume(MAIL), store.consume(MAIL)] == [True, False]
    assert store.ask(MAIL).status == "waiting"


def test_approvals_used_after_a_moment_can_be_restored(store: Approvals, clock: Clock) -> None:
    store.ask(MAIL)
    store.decide(store.list()[0].id, "approved", by="ann")
    before = clock()
    store.consume(MAIL)
    assert (
        store.restore_used("r2", used_since=before)
        == store.restore_used("r1", used_since=clock())
        == 0
    )
    assert store.restore_used("r1", used_since=before) == 1
    assert [store.consume(MAIL), store.consume(MAIL)] == [True, False]


def test_only_one_of_many_parallel_uses_succeeds(store: Approvals) -> None:
    store.ask(MAIL)
    store.decide(store.list()[0].id, "approved", by="ann")
    used: list[bool] = []
    threads = [threading.Thread(target=lambda: used.append(store.consume(MAIL))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(used) == [False] * 7 + [True]


def test_an_approval_is_for_one_action_of_one_run(store: Approvals) -> None:
    store.ask(MAIL)
    store.decide(store.list()[0].id, "approved", by="ann")
    for other in (replace(MAIL, action="b" * 64), replace(MAIL, run_id="r2")):
        assert store.consume(other) is False
        assert store.ask(other).status == "waiting"


def test_an_approval_expires_and_the_log_records_it(
    store: Approvals, clock: Clock, log: EventLog
) -> None:
    store.ask(MAIL)
    store.decide(store.list()[0].id, "approved", by="ann")
    for _ in range(61):
        clock()
    assert store.consume(MAIL) is False
    assert store.list(pending=True) == []
    statuses = [event.body["status"] for event in log.events(MAIL.run_id, kind="approval")]
    assert statuses == ["pending", "approved", "expired"]


def test_a_denial_is_final_and_has_a_reason(store: Approvals) -> None:
    store.ask(MAIL)
    name = store.list()[0].id
    store.decide(name, "denied", by="ann", reason="not her")
    assert (store.ask(MAIL).status, store.ask(MAIL).reason) == ("denied", "ann: not her")
    with pytest.raises(ApprovalDecided, match=r"is denied by ann \(not her\)"):
        store.decide(name, "approved", by="ann")


def test_an_approval_can_be_revoked_before_it_is_used(store: Approvals) -> None:
    store.ask(MAIL)
    name = store.list()[0].id
    store.decide(name, "approved", by="ann")
    store.decide(name, "denied", by="bob")
    assert store.consume(MAIL) is False


@pytest.mark.parametrize("name", ["", "nope", "%"])
def test_an_unknown_or_ambiguous_id_is_refused(store: Approvals, name: str) -> None:
    store.ask(MAIL)
    with pytest.raises(ApprovalNotFound):
        store.decide(name, "approved", by="ann")


def test_decisions_survive_a_restart_and_are_in_the_log(open_log: OpenLog, clock: Clock) -> None:
    log = open_log()
    first = Approvals(log=log, now=clock)
    first.ask(MAIL)
    first.decide(first.list()[0].id, "approved", by="ann")
    log.engine.dispose()
    again = open_log()
    second = Approvals(log=again, now=clock)
    assert second.consume(MAIL) is True
    statuses = [event.body["status"] for event in again.events("r1", kind="approval")]
    assert statuses == ["pending", "approved", "used"]
