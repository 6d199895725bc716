"""What a prompt names is the user's own word, whoever else also writes it."""

import json
from dataclasses import replace

import pytest

from contracts.entity import Label
from contracts.json import Json
from contracts.tool import Allowed, Denied
from policy.plan.named import is_named, named_in
from policy.plan.resolve import StepCall
from policy.plan.step_check import check_step
from tests.support.worlds import AUTHORITY, UNTRUSTED, entity, plan, world

CONTACTS = {"Anna Lee": ("anna@work.example",), "carl": ("carl@work.example",)}


@pytest.mark.parametrize(
    ("prompt", "value"),
    [
        ("Send it to bob@example.com.", "bob@example.com"),
        ("Send it to <Bob@example.com>, please", "bob@example.com"),
        ("Write notes/q2.md anew", "notes/q2.md"),
        ("Post it in #general", "general"),
        ("Post it in the channel general", "general"),
        ("Post it in the general channel", "general"),
        ("Pay $1,200.50 now", 1200.5),
        ("Pay 35 euros", "35"),
        ("Run 'make test' again", "make test"),
        ("Book Hotel Alster's suite", "Hotel Alster"),
        ("Tell Anna about it", "anna@work.example"),
        ("Tell anna@work.example and Carl", ["anna@work.example", "carl@work.example"]),
    ],
)
def test_a_prompt_names_addresses_files_channels_amounts_and_contacts(
    prompt: str, value: Json
) -> None:
    assert is_named(value, named_in(prompt, CONTACTS))


@pytest.mark.parametrize(
    ("prompt", "value"),
    [
        ("Send it to notbob@example.com", "bob@example.com"),
        ("Send it to bob@example.com.evil.example", "bob@example.com"),
        ("Read /etc/passwd", "/etc"),
        ("Remove the reboot line from README.md", "reboot"),
        ("Send all of it to the team", "all"),
        ("Pay 35 euros", 350),
        ("Do not write uv.lock!", "uv.lock"),
        ("Tell everybody except bob@example.com", "bob@example.com"),
        ("Schick nichts an bob@example.com", "bob@example.com"),
        ("N'envoie jamais rien à bob@example.com", "bob@example.com"),
        ("No lo mandes a bob@example.com", "bob@example.com"),
        ("Не отправляй на bob@example.com", "bob@example.com"),  # noqa: RUF001
        ("不要发给 bob@example.com", "bob@example.com"),
        ("bob@example.com には送らない", "bob@example.com"),
        ("Tell Anna", "carl@work.example"),
        ("Tell Anna", ["anna@work.example", "eve@evil.example"]),
        ("Tell Anna", []),
        ("Pay 1 to Anna", True),
    ],
)
def test_parts_ordinary_words_and_what_must_not_be_done_are_not_named(
    prompt: str, value: Json
) -> None:
    assert not is_named(value, named_in(prompt, CONTACTS))


def test_a_first_name_that_two_contacts_share_names_neither() -> None:
    two = {"Anna Lee": ("lee@work.example",), "Anna Orr": ("orr@work.example",)}
    assert not is_named("lee@work.example", named_in("Tell Anna", two))
    assert is_named("lee@work.example", named_in("Tell Anna Lee", two))


@pytest.mark.parametrize(
    ("named", "allowed"), [("eve@evil.example", False), ("bob@x.example", True)]
)
def test_untrusted_text_may_only_repeat_a_recipient_that_the_user_named(
    named: str, *, allowed: bool
) -> None:
    step = {"op": "send_email", "args": {"to": {"$ref": "input.mail"}}, "tool_caps": ["SEND_EMAIL"]}
    agreed = plan(json.dumps([step]))
    authority = replace(AUTHORITY, named=named_in("Mail it to bob@x.example", {}))
    seen = world(agreed, {"input.mail": entity(named, UNTRUSTED)}, authority)
    decision = check_step(StepCall(plan=agreed, index=0), seen)
    assert isinstance(decision, Allowed if allowed else Denied)


@pytest.mark.parametrize(("to", "rule"), [("ann@x.example", ""), ("eve@evil.example", "C3")])
def test_an_item_goes_only_to_those_who_may_read_it(to: str, rule: str) -> None:
    readers = Label(caps=frozenset({"readers:ann@x.example,bob@x.example"}))
    step = {
        "op": "send_email",
        "args": {"to": to, "subject": {"$ref": "input.doc"}},
        "tool_caps": ["SEND_EMAIL"],
    }
    agreed = plan(json.dumps([step]))
    seen = world(agreed, {"input.doc": entity("secret", readers)})
    decision = check_step(StepCall(plan=agreed, index=0), seen)
    assert (decision.rule if isinstance(decision, Denied) else "") == rule
