"""What a plan is made of, and what a person decides about it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Literal

from contracts.json import Json, deep_freeze, json_digest
from contracts.tool import Denied

Effect = Literal["read", "write", "egress"]
"""`read` changes nothing, `write` changes something here, `egress` lets data out."""

Role = Literal["authority", "recipient", "content", "query"]
"""What a parameter decides: what happens, who gets it, what it holds, or what is looked for."""


@dataclass(frozen=True, kw_only=True)
class ToolCap:
    """The right to use a kind of tool, such as `SEND_EMAIL` with the scope `smtp`."""

    id: str
    scope: str


@dataclass(frozen=True, kw_only=True)
class UserPrompt:
    """What the user typed, word for word."""

    text: str
    at: datetime

    @property
    def id(self) -> str:
        """Names the words: the same prompt has the same id."""
        return json_digest({"prompt": self.text})


@dataclass(frozen=True)
class Ref:
    """A place for a value that is known only at run time.

    `source` is `step3`, `item` (of the step's own `foreach`) or `input.NAME`; `path` leads into
    its content, by keys and by indices written as digits.
    """

    source: str
    path: tuple[str, ...] = ()

    def __str__(self) -> str:
        name = f"{self.source}.result" if self.source.startswith("step") else self.source
        return "/".join((name, *self.path))

    @property
    def step(self) -> int | None:
        """The step whose result this is; None for items and inputs."""
        return int(self.source[4:]) if self.source.startswith("step") else None


@dataclass(frozen=True, kw_only=True)
class PlanStep:
    """One operation. `args` is JSON in which `{"$ref": …}` stands for a value of run time.

    `data_caps` are the tags that the data it works on may carry at most. `when` must be
    true at run time, `foreach` is a list of which each item is worked on, `retry` says how
    often it is tried again. `compose` asks a model to write the content, in these words.
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

    def __post_init__(self) -> None:
        object.__setattr__(self, "args", deep_freeze(self.args))

    def as_json(self) -> dict[str, Json]:
        """The step as a planner writes it; what is not used is left out."""
        optional: dict[str, Json] = {
            "when": {"$ref": str(self.when)} if self.when else None,
            "foreach": {"$ref": str(self.foreach)} if self.foreach else None,
            "retry": self.retry or None,
            "compose": self.compose,
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
    """Steps in the order that the planner gave them; step 3 may use steps 0 to 2 only."""

    steps: tuple[PlanStep, ...]
    prompt: str
    """Id of the prompt that this plan is for."""
    id: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "id", json_digest(self.as_json()))

    def as_json(self) -> list[Json]:
        """The plan as a planner writes it; its id is the digest of this."""
        return [step.as_json() for step in self.steps]


APPROVAL_TTL_S = 7 * 24 * 3600.0
"""How long a question to a person stays open."""

QUESTION_RULE = "question"
"""Stands where an approval names its rule: not a thing to allow, but a question to answer."""

ApprovalStatus = Literal["pending", "approved", "denied", "used", "expired"]


@dataclass(frozen=True, kw_only=True)
class Approval:
    """One question to a person, about one action and no other.

    `action` is the digest of the step, its resolved arguments, their labels and the policy's
    version: whatever changes of these needs another approval. It is used once. What an agent
    asked for names its `node` and `agent` and has no step.
    """

    id: str
    action: str
    run_id: str
    step: int
    op: str
    arguments: Mapping[str, Json]
    denied: Denied
    status: ApprovalStatus
    asked_at: datetime
    expires_at: datetime
    decided_at: datetime | None = None
    decided_by: str | None = None
    reason: str = ""
    node: str = ""
    agent: str = ""

    @property
    def is_question(self) -> bool:
        """Whether a person is to answer in words of their own; those stand in `reason` then."""
        return self.denied.rule == QUESTION_RULE
