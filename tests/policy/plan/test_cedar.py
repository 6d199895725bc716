"""The set checks agree with Cedar: default deny, and forbid wins."""

import json
import random

import cedarpy

from contracts.entity import Label
from contracts.tool import Allowed
from policy.authority import Authority
from policy.plan.registry import Registry
from policy.plan.resolve import StepCall
from policy.plan.step_check import check_step
from tests.support.worlds import OPERATIONS, entity, plan, world

TAGS = ("pii", "secret:key", "share_with:bob", "share_with:ann", "share_with:team")
CAPS = ("SEND_EMAIL", "READ_FILE", "PAY")
PEOPLE = {
    "bob": frozenset({"bob@example.com"}),
    "ann": frozenset({"ann@example.com"}),
    "team": frozenset({"bob@example.com", "ann@example.com"}),
}
POLICY = """
permit (principal, action, resource) when {
    context.declared.containsAll(context.required) && context.required.containsAll(context.declared)
    && context.grants.containsAll(context.required)
    && context.data_caps.containsAll(context.carried)
    && context.cleared.containsAll(context.data_caps)
};
forbid (principal, action, resource) when { context.steers.containsAny(context.untrusted) };
"""
CHECKS = 10_000


def some(drawn: random.Random, of: tuple[str, ...], share: float) -> list[str]:
    return [one for one in of if drawn.random() < share]


def cleared(to: str, grants: list[str]) -> list[str]:
    """Written out by hand, so that it does not use the code under test."""
    found = [tag for tag in TAGS if f"release:{tag}" in grants]
    named = [tag for tag in TAGS if tag.startswith("share_with:")]
    return found + [tag for tag in named if to in PEOPLE[tag.removeprefix("share_with:")]]


def case(drawn: random.Random) -> tuple[bool, dict[str, object]]:
    """One random check: the decision of the policy, and the request to Cedar."""
    to = drawn.choice(["bob@example.com", "ann@example.com", "eve@evil.example"])
    declared = drawn.choice([["SEND_EMAIL"]] * 6 + [[], ["PAY"], ["SEND_EMAIL", "PAY"]])
    releases = [f"release:{tag}" for tag in some(drawn, TAGS, 0.4)]
    grants = some(drawn, CAPS, 0.9) + releases
    data_caps, carried = some(drawn, TAGS, 0.5), some(drawn, TAGS, 0.15)
    taint = drawn.choice([[], [], ["repo:notes"]])
    steers = drawn.random() < 0.5
    whom = {"$ref": "step0.result"} if steers else to
    step = {
        "op": "send_email",
        "args": {"to": whom, "subject": {"$ref": "step0.result"}},
        "tool_caps": declared,
        "data_caps": data_caps,
        "deps": [0],
    }
    read = {"op": "read_file", "args": {"path": "a"}, "tool_caps": ["READ_FILE"]}
    agreed = plan(json.dumps([read, step]))
    authority = Authority(grants=frozenset(grants), principals=PEOPLE, tags=frozenset(TAGS[:2]))
    values = {"step0": entity(to, Label(caps=frozenset(carried), taint=frozenset(taint)))}
    decision = check_step(
        StepCall(plan=agreed, index=1), world(agreed, values, authority, Registry(OPERATIONS))
    )
    context: dict[str, object] = {
        "required": ["SEND_EMAIL"],
        "declared": declared,
        "grants": grants,
        "carried": carried,
        "data_caps": data_caps,
        "cleared": cleared(to, grants),
        "steers": taint if steers else [],
        "untrusted": ["repo:notes"],
    }
    return decision == Allowed(), context


def test_ten_thousand_random_set_checks_agree_with_cedar() -> None:
    drawn = random.Random(7)  # noqa: S311 - a repeatable draw, not a secret
    cases = [case(drawn) for _ in range(CHECKS)]
    requests = [
        {
            "principal": 'User::"planner"',
            "action": 'Action::"run"',
            "resource": 'Operation::"send_email"',
            "context": context,
        }
        for _, context in cases
    ]
    answers = cedarpy.is_authorized_batch(requests, POLICY, "[]")
    wrong = [c for c, answer in zip(cases, answers, strict=True) if c[0] != answer.allowed]
    assert wrong == []
    assert 500 < sum(allowed for allowed, _ in cases) < CHECKS - 500
