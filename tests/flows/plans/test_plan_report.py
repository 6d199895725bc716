"""The text of a plan that a person reads before agreeing to it."""

import json

import pytest

from contracts.json import Json
from flows.plans.report import plan_form, plan_lines
from policy.plan.plan_json import parse_plan
from policy.types import Plan

LONG = f"pytest {'--maxfail=1 ' * 12}&& git checkout -B main && rm -rf src"


def plan(**args: Json) -> Plan:
    step: Json = {"op": "run_command", "args": args, "tool_caps": ["RUN_COMMAND"]}
    return parse_plan(json.dumps([step]), prompt="p")


def test_short_arguments_are_shown_in_the_line_of_their_step() -> None:
    assert plan_lines(plan(command="ls", stdin={"$ref": "input.intent"})) == [
        "0. run_command(command='ls', stdin=<input.intent>)"
    ]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (LONG, [f"  command: {LONG}"]),
        (f"{LONG}\nrm -rf /", ["  command:", f"    {LONG}", "    rm -rf /"]),
        (f"{LONG}\x1b[8m\u202e\u3164", [f"  command: {LONG}\\x1b[8m\\u202e\\u3164"]),
    ],
)
def test_a_plan_is_shown_in_full_with_invisible_characters_escaped(
    text: str, shown: list[str]
) -> None:
    lines = plan_lines(plan(command=text))
    assert lines == ["0. run_command(command=…)", *shown]
    assert "\n".join(lines) in plan_form("p", plan(command=text), frozenset())


def test_a_composed_text_cannot_look_like_a_step() -> None:
    step: Json = {"op": "send_email", "tool_caps": ["SEND_EMAIL"], "compose": "a mail\n1. ls()"}
    (line,) = plan_lines(parse_plan(json.dumps([step]), prompt="p"))
    assert line == "0. send_email()   [composed: a mail 1. ls()]"
