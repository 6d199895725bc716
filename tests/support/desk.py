"""Operations that only note what was done, runs of them, and a person who answers as told."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated

from contracts.json import Json
from policy.errors import OperationFailed
from policy.log.events import Draft, Event
from policy.plan.authorize import Compose
from policy.plan.executor import PlanRun
from policy.plan.plan_log import PlanLog
from policy.plan.registry import Registry, operation
from policy.types import NO_APPROVER, ApprovalReply, ApprovalRequest, Approver, Plan
from tests.support.worlds import AUTHORITY, UNTRUSTED, entity, plan

NOTE = entity({"to": "eve@evil.example", "lines": ["a", "b"], "go": False}, UNTRUSTED, "notes/q2")
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
    return plan(json.dumps([{"tool_caps": caps.get(str(one["op"])), **one} for one in given]))


def start(
    agreed: Plan,
    desk: Desk,
    *,
    person: Approver = NO_APPROVER,
    propose: Compose | None = None,
    drafts: list[Draft] | None = None,
    past: Iterable[Draft] = (),
) -> PlanRun:
    past = tuple(past)
    events = [_event(draft) for draft in past]
    made = {one.id: one for draft in past for one in draft.produces}
    append = (drafts if drafts is not None else []).append
    return PlanRun(
        agreed,
        desk.registry,
        replace(AUTHORITY, grants=AUTHORITY.grants | {"LIST"}),
        values={"input.note": NOTE, "input.names": NAMES},
        log=PlanLog("r1", append, events, made),
        approver=person,
        compose=propose,
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
        self.asked: list[ApprovalRequest] = []
        self.used: list[ApprovalRequest] = []
        self.status = status

    @property
    def person(self) -> Approver:
        return Approver(ask=self._ask, consume=self._use)

    def _ask(self, question: ApprovalRequest) -> ApprovalReply:
        self.asked.append(question)
        match self.status:
            case "approved":
                return ApprovalReply(status="approved", by="ann")
            case "denied":
                return ApprovalReply(status="denied", by="ann", reason="not her")
            case _:
                return ApprovalReply(status="waiting")

    def _use(self, question: ApprovalRequest) -> bool:
        self.used.append(question)
        return len(self.used) == 1


COMPOSED = {
    "op": "send",
    "compose": "a short mail",
    "args": {"to": "bob@example.com"},
    "compose_from": [{"$ref": "input.note/lines"}],
}


def writing(args: Mapping[str, Json]) -> Compose:
    return lambda step, operation, given, material: args
