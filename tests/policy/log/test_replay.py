"""Replay: the same policy makes the same decisions, and every change is reported."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from contracts.entity import Entity, Label
from contracts.json import Json
from contracts.tool import Allowed, Decision, Denied
from policy.log.events import Draft, History
from policy.log.replay import replay
from policy.plan.decision_record import decision_inputs, redecide
from policy.plan.resolve import StepCall
from tests.support.policy import OpenLog, draft, entity
from tests.support.worlds import SEED, plan, world


def no_odd_numbers(question: Mapping[str, Json]) -> Decision:
    number = question.get("number")
    if not isinstance(number, int):
        raise ValueError("no number")
    return Denied(reason="odd", rule="R1") if number % 2 else Allowed()


POLICIES = {"numbers/1": no_odd_numbers}


def decided(number: Json, verdict: str, *, rule: str = "", reason: str = "") -> Draft:
    body: dict[str, Json] = {
        "policy": "numbers/1",
        "question": {"number": number},
        "verdict": verdict,
        "rule": rule,
        "reason": reason,
    }
    return Draft(kind="decision", run_id="run1", body=body)


@pytest.fixture
def history(open_log: OpenLog) -> History:
    log = open_log()
    read = entity("text", "repo:x")
    log.append([draft(read), draft(entity("made", "repo:x"), of=(read,))])
    log.append([decided(2, "allowed"), decided(3, "denied", rule="R1", reason="odd")])
    return log.history()


def test_a_replay_by_the_same_policy_has_no_differences(history: History) -> None:
    done = replay(history, POLICIES)
    assert (done.decisions, done.entities, done.same) == (2, 2, True)


@pytest.mark.parametrize(("wrong", "what"), [
    (decided(3, "allowed"), "the verdict was 'allowed', is 'denied'"),
    (decided(2, "denied", rule="R1", reason="odd"), "the verdict was 'denied', is 'allowed'"),
    (decided(3, "denied", rule="R2", reason="odd"), "the rule was 'R2', is 'R1'"),
    (decided("three", "denied"), "invalid: no number"),
    (replace(decided(2, "allowed"), body={"policy": "numbers/2"}), "the policy was numbers/2"),
    (Draft(kind="decision", run_id="run1"), "the policy was None"),
])  # fmt: skip
def test_a_different_decision_is_reported(open_log: OpenLog, wrong: Draft, what: str) -> None:
    log = open_log()
    log.append([decided(2, "allowed"), wrong])
    differences = replay(log.history(), POLICIES).differences
    assert any(what in str(difference) for difference in differences)
    assert {difference.event for difference in differences} == {log.events()[1].id}


def test_a_label_that_lost_a_tag_is_reported(
    open_log: OpenLog,
) -> None:
    log = open_log()
    read = entity("text", "repo:x", caps=("pii",))
    log.append([draft(read), draft(entity("washed"), of=(read,)), decided(2, "allowed")])
    (difference,) = replay(log.history(), POLICIES).differences
    assert (difference.was, difference.now) == ("clean", "also pii, repo:x")


def test_an_entity_that_hides_its_source_is_reported(open_log: OpenLog) -> None:
    log = open_log()
    read = entity("text", "repo:x")
    hidden = Entity(content="made", label=Label(), origin="test", sources=(read.id,))
    log.append([draft(read), draft(hidden)])
    assert not replay(log.history(), POLICIES).same


@pytest.mark.parametrize(
    "changed",
    [
        {"index": 10**9},
        {"index": -1},
        {"steps": {"1": {"op": "pay", "deps": [7]}}},
        {"steps": {"7": {"op": "pay"}}},
    ],
)
def test_inputs_of_another_policy_are_refused(
    changed: dict[str, Json],
) -> None:
    agreed = plan(SEED)
    inputs = decision_inputs(StepCall(plan=agreed, index=1), world(agreed))
    with pytest.raises(ValueError, match=r"validation error|does not belong"):
        redecide({**inputs, **changed})
