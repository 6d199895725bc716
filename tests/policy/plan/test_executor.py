"""Runs of plans without Prefect: results, approvals, and actions that happen only once."""

import pytest

from contracts.entity import Entity
from contracts.errors import HarnessError
from contracts.json import Json
from contracts.tool import Denied
from policy.log.events import Draft
from policy.plan.plan_json import check_plan
from policy.plan.registry import Registry, operation
from policy.types import ApprovalRequest
from tests.support.desk import (
    COMPOSED,
    NAMES,
    NOTE,
    SEND_SWAPPED,
    Clerk,
    Desk,
    start,
    steps,
    writing,
)
from tests.support.worlds import AUTHORITY, UNTRUSTED, entity

NO = Denied(reason="no")


def test_a_denied_step_and_its_dependents_do_not_run() -> None:
    desk = Desk()
    follows = {"op": "echo", "args": {"text": "step0.result"}, "deps": [0]}
    run = start(steps(SEND_SWAPPED, follows), desk)
    denied = run.run_step(0)
    assert (denied.status, denied.denied and denied.denied.rule) == ("denied", "C4")
    assert run.run_step(1).status == "skipped"
    assert desk.done == []


def test_an_approval_endorses_the_steering_value_as_a_new_entity() -> None:
    drafts: list[Draft] = []
    run = start(steps(SEND_SWAPPED), Desk(), person=Clerk("approved").person, drafts=drafts)
    assert run.run_step(0).status == "done"
    (event,) = [draft for draft in drafts if draft.kind == "endorsement"]
    assert event.consumes == (NOTE.id,)
    assert (event.body["argument"], event.body["by"]) == ("/to", "ann")
    assert (event.produces[0].content, event.produces[0].label.taint) == (NOTE.content, frozenset())


def test_an_approval_endorses_steering_values_of_every_broken_rule() -> None:
    drafts: list[Draft] = []
    ungranted = {**SEND_SWAPPED, "tool_caps": ["SEND", "MORE"]}
    run = start(steps(ungranted), Desk(), person=Clerk("approved").person, drafts=drafts)
    assert run.run_step(0).status == "done"
    (event,) = [draft for draft in drafts if draft.kind == "endorsement"]
    assert (event.consumes, event.body["argument"]) == ((NOTE.id,), "/to")


def test_each_item_of_foreach_is_part_of_the_list() -> None:
    drafts: list[Draft] = []
    each = {"op": "send", "foreach": {"$ref": "input.names"}, "args": {"to": {"$ref": "item"}}}
    start(steps(each), Desk(), drafts=drafts).run_step(0)
    items = [made for draft in drafts for made in draft.produces if made.part_of]
    assert [item.part_of for item in items] == [NAMES.id, NAMES.id]


def test_an_approved_action_is_done_exactly_once() -> None:
    desk, clerk = Desk(), Clerk("approved")
    run = start(steps(SEND_SWAPPED), desk, person=clerk.person)
    assert [run.run_step(0).status, run.run_step(0).status] == ["done", "done"]
    assert desk.done == ["eve@evil.example: "]
    assert [q.arguments for q in clerk.asked] == [{"to": "eve@evil.example"}]


def test_a_denied_action_ends_the_step_with_the_reason() -> None:
    desk, clerk = Desk(), Clerk("denied")
    outcome = start(steps(SEND_SWAPPED), desk, person=clerk.person).run_step(0)
    assert (outcome.status, desk.done) == ("denied", [])
    assert "not her" in outcome.reason


def test_a_waiting_step_runs_after_the_decision() -> None:
    desk, clerk = Desk(), Clerk("waiting")
    run = start(steps(SEND_SWAPPED), desk, person=clerk.person)
    assert run.run_step(0).status == "waiting"
    clerk.status = "approved"
    assert run.run_step(0).status == "done"


def test_a_used_approval_permits_nothing() -> None:
    desk, clerk = Desk(), Clerk("approved")
    clerk.used.append(ApprovalRequest(action="", run_id="", step=0, op="", arguments={}, denied=NO))
    assert start(steps(SEND_SWAPPED), desk, person=clerk.person).run_step(0).status == "waiting"
    assert desk.done == []


def test_each_item_of_a_trusted_list_is_decided_on_and_executed() -> None:
    desk = Desk()
    each = {"op": "send", "foreach": {"$ref": "input.names"}, "args": {"to": {"$ref": "item"}}}
    run = start(steps(each), desk)
    assert run.run_step(0).status == "done"
    assert desk.done == ["bob@example.com: ", "ann@example.com: "]


def test_an_untrusted_list_sends_nothing_anywhere() -> None:
    desk = Desk()
    each = {
        "op": "send",
        "foreach": {"$ref": "input.note/lines"},
        "args": {"to": "bob@example.com", "text": {"$ref": "item"}},
    }
    assert start(steps(each), desk).run_step(0).status == "denied"
    assert desk.done == []


def test_a_false_when_skips_the_step_and_keeps_its_labels() -> None:
    desk = Desk()
    guarded = {"op": "echo", "when": {"$ref": "input.note/go"}, "args": {"text": "x"}}
    outcome = start(steps(guarded), desk).run_step(0)
    assert outcome.status == "skipped"
    assert outcome.entity is not None
    assert outcome.entity.label == UNTRUSTED


def test_a_failed_step_is_retried_as_often_as_declared() -> None:
    desk = Desk(failures=2)
    run = start(steps({"op": "send", "retry": 2, "args": {"to": "bob@example.com"}}), desk)
    assert run.run_step(0).status == "done"
    run = start(steps({"op": "send", "retry": 1, "args": {"to": "bob@example.com"}}), Desk(2))
    assert (run.run_step(0).status, run.run_step(0).reason) == ("failed", "no answer")


@pytest.mark.parametrize("content", ["text", None, {"a": 1}])
def test_foreach_needs_a_list(content: Json) -> None:
    each = {"op": "echo", "foreach": {"$ref": "step0.result"}, "args": {"text": "x"}, "deps": [0]}
    run = start(steps({"op": "echo", "args": {"text": content}}, each), Desk())
    run.run_step(0)
    assert run.run_step(1).status == "failed"


def test_a_model_writes_content_and_nothing_else() -> None:
    desk = Desk()
    assert start(steps(COMPOSED), desk, propose=writing({"text": "hi"})).run_step(0).reason == ""
    assert desk.done == ["bob@example.com: hi"]
    swapped = start(steps(COMPOSED), desk, propose=writing({"to": "eve@evil.example"}))
    denied = swapped.run_step(0).denied
    assert denied is not None
    assert (denied.rule, denied.argument, denied.provenance) == ("C5", "/to", ("notes/q2",))
    assert len(desk.done) == 1


@pytest.mark.parametrize(
    ("changed", "status"),
    [({"to": "eve@evil.example"}, "denied"), ({"text": "a", "more": 1}, "failed")],
)
def test_compose_fills_only_arguments_that_the_plan_left_open(
    changed: dict[str, Json], status: str
) -> None:
    desk = Desk()
    assert start(steps(COMPOSED), desk, propose=writing(changed)).run_step(0).status == status
    assert desk.done == []


def test_content_that_the_plan_gives_cannot_be_composed() -> None:
    given = {**COMPOSED, "args": {"to": "bob@example.com", "text": "agreed"}}
    refused = check_plan(steps(given), Desk().registry, AUTHORITY, frozenset({"note", "names"}))
    assert isinstance(refused, Denied)
    assert "leave out what shall be composed" in refused.reason
    run = start(steps(given), Desk(), propose=writing({"text": "other"}))
    denied = run.run_step(0).denied
    assert denied is not None
    assert (denied.rule, denied.argument) == ("C5", "/text")


MIXED = [entity("mine"), entity("theirs", UNTRUSTED)]


def listing() -> Desk:
    """A desk whose lists have one label for each item."""

    @operation(
        effect="read", requires=["LIST"], label_of=lambda _, __: [one.label for one in MIXED]
    )
    def listed() -> Json:
        """List."""
        return ["bob@example.com", "eve@evil.example"]

    desk = Desk()
    desk.registry = Registry([*desk.registry, listed])
    return desk


LISTED = {"op": "listed", "tool_caps": ["LIST"]}


@pytest.mark.parametrize(("item", "status"), [(0, "done"), (1, "denied")])
def test_each_item_of_a_result_has_its_own_label(item: int, status: str) -> None:
    send = {"op": "send", "args": {"to": f"step0.result/{item}"}, "deps": [0]}
    drafts: list[Draft] = []
    run = start(steps(LISTED, send), listing(), drafts=drafts)
    assert [run.run_step(0).status, run.run_step(1).status] == ["done", status]
    whole = run.outcomes[0].entity
    assert whole is not None
    assert whole.label == UNTRUSTED
    resumed = start(steps(LISTED, send), listing(), past=drafts[:-1])
    assert resumed.context().values[f"step0/{item}"] == run.context().values[f"step0/{item}"]


def test_a_list_with_another_number_of_labels_fails_the_step() -> None:
    @operation(effect="read", requires=["LIST"], label_of=lambda _, __: [UNTRUSTED])
    def listed() -> Json:
        """List."""
        return [1, 2]

    desk = Desk()
    desk.registry = Registry([listed])
    outcome = start(steps(LISTED), desk).run_step(0)
    assert (outcome.status, outcome.reason) == ("failed", "listed: 1 labels for 2 items")


def test_each_item_of_a_foreach_keeps_its_label() -> None:
    each = {"op": "echo", "args": {"text": {"$ref": "item"}}, "foreach": {"$ref": "step0.result"},
            "deps": [0]}  # fmt: skip
    send = {"op": "send", "args": {"to": "bob@example.com", "text": "step1.result/0"}, "deps": [1]}
    run = start(steps(LISTED, each, send), listing())
    assert [run.run_step(n).status for n in range(3)] == ["done", "done", "done"]
    values = run.context().values
    labels = [found.label for n in range(2) if isinstance(found := values[f"step1/{n}"], Entity)]
    assert labels[1] == UNTRUSTED


def test_an_operation_must_declare_its_roles() -> None:
    def bare(text: str) -> Json:
        """Do."""
        return text

    with pytest.raises(HarnessError, match="'text' of operation 'bare' has no role"):
        operation(effect="read", requires=["READ_FILE"])(bare)
    with pytest.raises(HarnessError, match="must require a capability"):
        operation(effect="read", requires=[])(bare)


def test_wrong_arguments_are_a_failed_step() -> None:
    run = start(steps({"op": "send", "args": {"to": ["bob@example.com"]}}), Desk())
    assert run.run_step(0).status == "failed"
    assert "argument /to" in run.run_step(0).reason


def test_a_result_has_the_labels_of_all_used_values() -> None:
    run = start(steps({"op": "echo", "args": {"text": ["x", {"$ref": "input.note/to"}]}}), Desk())
    made = run.run_step(0).entity
    assert made is not None
    assert made.label == UNTRUSTED
    assert made.content == "<['x', 'eve@evil.example']>"
