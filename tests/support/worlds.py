"""A small world for the policy: operations that only note what was done, people, and labels."""

from collections.abc import Mapping
from typing import Annotated

from contracts.entity import EMPTY_LABEL, Entity, Label
from contracts.json import Json
from policy.authority import Authority
from policy.plan.plan_json import parse_plan
from policy.plan.registry import Registry, operation
from policy.plan.resolve import PolicyContext
from policy.types import Plan

UNTRUSTED = Label(taint=frozenset({"repo:notes"}))
FOR_BOB = Label(caps=frozenset({"share_with:bob"}))
SECRET = Label(caps=frozenset({"secret:key"}))


@operation(effect="read", requires=["READ_FILE"])
def fetch_meeting_notes(topic: Annotated[str, "query"]) -> Json:
    """Give the notes on a topic."""
    return {"title": topic, "text": f"what was said of {topic}"}


@operation(effect="read", requires=["READ_FILE"])
def read_file(path: Annotated[str, "authority"]) -> Json:
    """Give the text of a file."""
    return f"the text of {path}"


@operation(effect="read", requires=["ASK_MODEL"])
def summarise(text: Annotated[object, "content"], question: Annotated[str, "query"] = "") -> Json:
    """Say it shorter."""
    return f"{text}"[:80]


@operation(effect="egress", requires=["SEND_EMAIL"])
def send_email(
    to: Annotated[object, "recipient"],
    subject: Annotated[object, "content"] = "",
    attachment_ref: Annotated[object, "content"] = None,
) -> Json:
    """Send a mail."""
    return {"sent": f"{to}"}


@operation(effect="write", requires=["WRITE_FILE"], place="workspace")
def write_file(path: Annotated[object, "authority"], text: Annotated[object, "content"]) -> Json:
    """Write a file of the workspace."""
    return None


@operation(effect="egress", requires=["GIT_PUSH"], place="workspace")
def git_push(remote: Annotated[str, "recipient"], branch: Annotated[str, "authority"]) -> Json:
    """Push what is in the workspace."""
    return None


@operation(effect="egress", requires=["PAY"])
def pay(to: Annotated[object, "recipient"], amount: Annotated[object, "authority"]) -> Json:
    """Pay somebody."""
    return None


OPERATIONS = (fetch_meeting_notes, read_file, summarise, send_email, write_file, git_push, pay)
REGISTRY = Registry(OPERATIONS)
AUTHORITY = Authority(
    grants=frozenset(cap for one in OPERATIONS for cap in one.requires),
    principals={
        "bob": frozenset({"bob@example.com"}),
        "ann": frozenset({"ann@example.com"}),
        "team": frozenset({"bob@example.com", "ann@example.com"}),
        "origin": frozenset({"origin"}),
    },
    tags=frozenset({"pii", "secret:key"}),
)

SEED = """[
  {"op": "fetch_meeting_notes", "args": {"topic": "Q2 OKRs"}, "tool_caps": ["READ_FILE"],
   "data_caps": ["share_with:bob"], "deps": []},
  {"op": "send_email",
   "args": {"to": "bob@example.com", "subject": "Notes you requested",
            "attachment_ref": "step0.result"},
   "tool_caps": ["SEND_EMAIL"], "data_caps": ["share_with:bob"], "deps": [0]}
]"""
"""The seed's own example, word for word."""


def entity(content: Json, label: Label = EMPTY_LABEL, origin: str = "step0") -> Entity:
    return Entity(content=content, label=label, origin=origin)


def plan(text: str) -> Plan:
    return parse_plan(text, prompt="p")


def world(
    agreed: Plan,
    values: Mapping[str, object] | None = None,
    authority: Authority = AUTHORITY,
    registry: Registry = REGISTRY,
) -> PolicyContext:
    """The world in which `agreed` is the plan that was agreed on."""
    held = {"place.workspace": entity("files", UNTRUSTED, "workspace"), **(values or {})}
    entities = {e.id: e for e in held.values() if isinstance(e, Entity)}
    return PolicyContext(
        registry=registry, authority=authority, plan=agreed.id, values=held, entities=entities
    )
