"""Runs of plans without Prefect: what is done, what waits for a person, what is done once only."""

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Annotated

import pytest

from contracts.errors import HarnessError
from contracts.json import Json
from contracts.tool import Denied
from policy.ask import NOBODY, Answer, Person, Question
from policy.errors import OperationFailed
from policy.events import Draft, Event
from policy.executor import PlanRun
from policy.notes import Notes
from policy.permit import Propose
from policy.registry import Registry, operation
from policy.types import Plan
from tests.policy.worlds import AUTHORITY, UNTRUSTED, entity, plan

NOTE = entity({"to": "eve@evil.example", "lines": ["a", "b"], "go": False}, UNTRUSTED, "notes/q2")
NO = Denied(reason="no")
NAMES = entity(["bob@example.com", "ann@example.com"])


class Desk:
    """The operations of these tests; `done` says what was really done."""

    def __init__(self, failures: int = 0) -> None:
        self.done: list[str] = []
        self._failures = failures

        @operation(effect="egress", requires=["SEND_EMAIL"])
        def send(to: Annotated[str, "recipient"], text: Annotated[object, "content"] = "") -> Json:
            """Send."""
            if self._failures:
                self._failures -= 1
                raise OperationFailed("no answer")
            self.done.append(f"{to}: {text}")
            return "sent"

        @operation(effect="read", requires=["READ_FILE"])
        def echo(text: Annotated[object, "content"]) -> Json:
            """Echo."""
            return f"<{text}>"

        self.registry = Registry([send, echo])


def steps(*given: Mapping[str, object]) -> Plan:
    caps = {"send": ["SEND_EMAIL"], "echo": ["READ_FILE"]}
    return plan(json.dumps([{"tool_caps": caps[str(one["op"])], **one} for one in given]))


def start(
    agreed: Plan,
    desk: Desk,
    *,
    person: Person = NOBODY,
    propose: Propose | None = None,
    drafts: list[Draft] | None = None,
    past: Iterable[Draft] = (),
) -> PlanRun:
    events = [_event(draft) for draft in past]
    made = {one.id: one for draft in past for one in draft.produces}
    append = (drafts if drafts is not None else []).append
    return PlanRun(
        agreed,
        desk.registry,
        AUTHORITY,
        values={"input.note": NOTE, "input.names": NAMES},
        notes=Notes("r1", append, events, made),
        person=person,
        propose=propose,
    )


def _event(draft: Draft) -> Event:
    return Event(
        kind=draft.kind,
        run_id=draft.run_id,
        replica="a",
        at=datetime.now(UTC),
        body=draft.body,
        produces=tuple(one.id for one in draft.produces),
        clock={"a": 1},
    )


SEND_SWAPPED = {"op": "send", "args": {"to": {"$ref": "input.note/to"}}}


class Clerk:
    """A person who answers as told, and whose approval is there once."""

    def __init__(self, status: str) -> None:
        self.asked: list[Question] = []
        self.used: list[Question] = []
        self.status = status

    @property
    def person(self) -> Person:
        return Person(ask=self._ask, use=self._use)

    def _ask(self, question: Question) -> Answer:
        self.asked.append(question)
        match self.status:
            case "approved":
                return Answer(status="approved", by="ann")
            case "denied":
                return Answer(status="denied", by="ann", reason="not her")
            case _:
                return Answer(status="waiting")

    def _use(self, question: Question) -> bool:
        self.used.append(question)
        return len(self.used) == 1


def test_what_the_policy_denies_is_not_done_and_what_follows_is_not_run() -> None:
    desk = Desk()
    follows = {"op": "echo", "args": {"text": "step0.result"}, "deps": [0]}
    run = start(steps(SEND_SWAPPED, follows), desk)
    denied = run.run_step(0)
    assert (denied.status, denied.denied and denied.denied.rule) == ("denied", "C4")
    assert run.run_step(1).status == "skipped"
    assert desk.done == []


def test_an_approval_is_an_endorsement_of_what_steered_and_makes_a_new_entity() -> None:
    drafts: list[Draft] = []
    run = start(steps(SEND_SWAPPED), Desk(), person=Clerk("approved").person, drafts=drafts)
    assert run.run_step(0).status == "done"
    (told,) = [draft for draft in drafts if draft.kind == "endorsement"]
    assert told.consumes == (NOTE.id,)
    assert (told.body["argument"], told.body["by"]) == ("/to", "ann")
    assert (told.produces[0].content, told.produces[0].label.taint) == (NOTE.content, frozenset())


def test_each_item_is_a_part_of_the_list() -> None:
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


def test_a_step_that_waits_may_be_run_again_when_somebody_answered() -> None:
    desk, clerk = Desk(), Clerk("waiting")
    run = start(steps(SEND_SWAPPED), desk, person=clerk.person)
    assert run.run_step(0).status == "waiting"
    clerk.status = "approved"
    assert run.run_step(0).status == "done"


def test_an_approval_that_is_used_up_lets_nothing_through() -> None:
    desk, clerk = Desk(), Clerk("approved")
    clerk.used.append(Question(action="", run_id="", step=0, op="", arguments={}, denied=NO))
    assert start(steps(SEND_SWAPPED), desk, person=clerk.person).run_step(0).status == "waiting"
    assert desk.done == []


def test_each_item_of_a_trusted_list_is_decided_on_and_done() -> None:
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


def test_a_guard_that_does_not_hold_passes_the_step_over_with_its_labels() -> None:
    desk = Desk()
    guarded = {"op": "echo", "when": {"$ref": "input.note/go"}, "args": {"text": "x"}}
    outcome = start(steps(guarded), desk).run_step(0)
    assert outcome.status == "skipped"
    assert outcome.entity is not None
    assert outcome.entity.label == UNTRUSTED


def test_a_failed_step_is_tried_again_as_often_as_it_says() -> None:
    desk = Desk(failures=2)
    run = start(steps({"op": "send", "retry": 2, "args": {"to": "bob@example.com"}}), desk)
    assert run.run_step(0).status == "done"
    run = start(steps({"op": "send", "retry": 1, "args": {"to": "bob@example.com"}}), Desk(2))
    assert (run.run_step(0).status, run.run_step(0).reason) == ("failed", "no answer")


@pytest.mark.parametrize("content", ["text", None, {"a": 1}])
def test_a_foreach_over_something_else_than_a_list_fails(content: Json) -> None:
    each = {"op": "echo", "foreach": {"$ref": "step0.result"}, "args": {"text": "x"}, "deps": [0]}
    run = start(steps({"op": "echo", "args": {"text": content}}, each), Desk())
    run.run_step(0)
    assert run.run_step(1).status == "failed"


COMPOSED = {
    "op": "send",
    "compose": "a short mail",
    "args": {"to": "bob@example.com", "text": {"$ref": "input.note/lines"}},
}


def writing(args: Mapping[str, Json]) -> Propose:
    return lambda step, operation, filled: {**filled, **args}


def test_a_model_writes_content_and_nothing_else() -> None:
    desk = Desk()
    assert start(steps(COMPOSED), desk, propose=writing({"text": "hi"})).run_step(0).reason == ""
    assert desk.done == ["bob@example.com: hi"]
    swapped = start(steps(COMPOSED), desk, propose=writing({"to": "eve@evil.example"}))
    denied = swapped.run_step(0).denied
    assert denied is not None
    assert (denied.rule, denied.argument, denied.provenance) == ("C5", "/to", ("notes/q2",))
    assert len(desk.done) == 1


def test_what_a_model_wrote_is_the_same_after_a_break() -> None:
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


def test_what_is_over_is_not_done_again_after_a_break() -> None:
    desk, drafts = Desk(), list[Draft]()
    agreed = steps({"op": "send", "args": {"to": "bob@example.com"}})
    assert start(agreed, desk, drafts=drafts).run_step(0).status == "done"
    assert start(agreed, desk, past=drafts).run_step(0).status == "done"
    assert len(desk.done) == 1


def test_what_was_begun_and_may_have_happened_is_not_done_again() -> None:
    desk, drafts = Desk(), list[Draft]()
    agreed = steps({"op": "send", "args": {"to": "bob@example.com"}})
    start(agreed, desk, drafts=drafts).run_step(0)
    killed = [draft for draft in drafts if draft.kind == "tool_call" and "op" in draft.body]
    outcome = start(agreed, desk, past=killed).run_step(0)
    assert outcome.status == "failed"
    assert "may have happened" in outcome.reason
    assert len(desk.done) == 1


def test_an_operation_must_say_its_roles() -> None:
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


def test_the_labels_of_all_that_was_used_are_on_the_result() -> None:
    run = start(steps({"op": "echo", "args": {"text": ["x", {"$ref": "input.note/to"}]}}), Desk())
    made = run.run_step(0).entity
    assert made is not None
    assert made.label == UNTRUSTED
    assert made.content == "<['x', 'eve@evil.example']>"
