"""The types of plans and approvals."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Literal

from contracts.json import Json, deep_freeze, json_digest
from contracts.tool import Denied

Effect = Literal["read", "write", "egress"]
"""`read` changes nothing, `write` changes something on this machine, `egress` lets data out."""

Role = Literal["authority", "recipient", "content", "query"]
"""How the policy treats a parameter: `authority` steers the action, `recipient` gets the data,
`content` is the data, `query` says what to look for."""


@dataclass(frozen=True, kw_only=True)
class UserPrompt:
    """The user's request, word for word."""

    text: str
    at: datetime

    @property
    def id(self) -> str:
        """Digest of the text: equal prompts have equal ids."""
        return json_digest({"prompt": self.text})


@dataclass(frozen=True)
class Ref:
    """A reference to a value that is known only at run time.

    `source` is `step3`, `item` (of the step's own `foreach`) or `input.NAME`. `path` leads into
    the content of the source, by keys and by indices written as digits.
    """

    source: str
    path: tuple[str, ...] = ()

    def __str__(self) -> str:
        name = f"{self.source}.result" if self.source.startswith("step") else self.source
        return "/".join((name, *self.path))

    @property
    def step(self) -> int | None:
        """Index of the step whose result is meant; None for items and inputs."""
        return int(self.source[4:]) if self.source.startswith("step") else None


@dataclass(frozen=True, kw_only=True)
class PlanStep:
    """One operation with its arguments.

    `args` is JSON in which `{"$ref": …}` stands for a value of run time. `data_caps` are the
    only tags that the step's data may carry. `when` must be true at run time. `foreach` is a
    list; the step runs once for each item. `retry` is the number of further attempts after a
    failure. `compose` tells a model what to write into the content arguments that `args` leaves
    out; the model reads `compose_from` and the given arguments.
    """

    op: str
    args: Mapping[str, Json] = field(default_factory=lambda: MappingProxyType({}))
    tool_caps: frozenset[str] = frozenset()
    data_caps: frozenset[str] = frozenset()
    deps: tuple[int, ...] = ()
    when: Ref | None = None
    foreach: Ref | None = None
    retry: int = 0
    compose: str | None = None
    compose_from: tuple[Ref, ...] = ()

    def __post_init__(self) -> None:
        # The plan is agreed to by its digest, so nothing in it may change afterwards.
        object.__setattr__(self, "args", deep_freeze(self.args))

    def as_json(self) -> dict[str, Json]:
        """Return the step as a planner writes it, without unused fields."""
        optional: dict[str, Json] = {
            "when": {"$ref": str(self.when)} if self.when else None,
            "foreach": {"$ref": str(self.foreach)} if self.foreach else None,
            "retry": self.retry or None,
            "compose": self.compose,
            "compose_from": [{"$ref": str(ref)} for ref in self.compose_from] or None,
        }
        return {
            "op": self.op,
            "args": self.args,
            "tool_caps": sorted(self.tool_caps),
            "data_caps": sorted(self.data_caps),
            "deps": self.deps,
            **{key: value for key, value in optional.items() if value is not None},
        }


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Steps in the planner's order; a step may only use results of earlier steps."""

    steps: tuple[PlanStep, ...]
    prompt: str
    """Id of the prompt that this plan is for."""
    id: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "id", json_digest(self.as_json()))

    def as_json(self) -> list[Json]:
        """Return the plan as a planner writes it; the plan's id is the digest of this."""
        return [step.as_json() for step in self.steps]


APPROVAL_TTL_S = 7 * 24 * 3600.0
"""Default lifetime of a request for approval."""

QUESTION_RULE = "question"
"""Value of `denied.rule` for an approval that asks for an answer instead of a permission."""

ApprovalStatus = Literal["pending", "approved", "denied", "used", "expired"]


@dataclass(frozen=True, kw_only=True)
class ApprovalRequest:
    """A denied action that a person may approve, from a step of a plan or an agent in a node.

    `action` is a digest of the step, its resolved arguments, their labels and the version of the
    policy. If one of them changes, another approval is needed. A request of an agent has `node`
    and `agent` and no step.
    """

    action: str
    run_id: str
    step: int
    op: str
    arguments: Mapping[str, Json]
    denied: Denied
    node: str = ""
    agent: str = ""


@dataclass(frozen=True, kw_only=True)
class Approval(ApprovalRequest):
    """A request to a person about exactly one action, and the decision once there is one.

    An approval is used once.
    """

    id: str
    status: ApprovalStatus
    asked_at: datetime
    expires_at: datetime
    decided_at: datetime | None = None
    decided_by: str | None = None
    reason: str = ""

    @property
    def is_question(self) -> bool:
        """True if the person must answer in their own words, which are stored in `reason`."""
        return self.denied.rule == QUESTION_RULE


@dataclass(frozen=True, kw_only=True)
class ApprovalReply:
    """The state of a request; `waiting` means that nobody has decided yet."""

    status: Literal["approved", "denied", "waiting"]
    by: str = ""
    reason: str = ""
    approval: str = ""
    """Id of the approval."""


@dataclass(frozen=True)
class Approver:
    """Functions that ask a person for approval.

    `ask` may be called repeatedly. `consume` is called once, right before the action, and
    returns False if the approval has been used, has expired or was revoked.
    """

    ask: Callable[[ApprovalRequest], ApprovalReply]
    consume: Callable[[ApprovalRequest], bool]


def _deny(_: ApprovalRequest) -> ApprovalReply:
    return ApprovalReply(status="denied", reason="no person is available to approve it")


NO_APPROVER = Approver(ask=_deny, consume=lambda _: False)
"""Refuses every action that the policy denies."""


def denial_to_json(denied: Denied) -> dict[str, Json]:
    """Return the denial, with the other broken rules in it, as it is stored."""
    return {
        "reason": denied.reason,
        "rule": denied.rule,
        "argument": denied.argument,
        "tags": sorted(denied.tags),
        "provenance": list(denied.provenance),
        **({"also": [denial_to_json(one) for one in denied.others]} if denied.others else {}),
    }


def denial_from_json(body: Mapping[str, Json]) -> Denied:
    """Return the denial that `denial_to_json` stored."""
    also = _items(body.get("also"))
    return Denied(
        reason=str(body["reason"]),
        rule=str(body["rule"]),
        argument=str(body["argument"]),
        tags=frozenset(map(str, _items(body["tags"]))),
        provenance=tuple(map(str, _items(body["provenance"]))),
        others=tuple(denial_from_json(one) for one in also if isinstance(one, Mapping)),
    )


def _items(value: Json) -> Sequence[Json]:
    return value if isinstance(value, (list, tuple)) else ()
