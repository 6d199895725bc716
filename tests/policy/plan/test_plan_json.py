"""Parsing and checking plans: invalid ones are refused with one line."""

import json

import pytest

from contracts.errors import PlanInvalid
from contracts.tool import Denied
from policy.plan.plan_json import MAX_CHARS, MAX_STEPS, check_plan, parse_plan, plan_schema
from policy.types import Ref
from tests.support.worlds import AUTHORITY, REGISTRY, SEED, plan

READ = '{"op": "read_file", "args": {"path": "a"}, "tool_caps": ["READ_FILE"]}'


def step(**changed: object) -> str:
    return json.dumps([{**json.loads(READ), **changed}])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (SEED[:120], "not JSON"),
        ("", "not JSON"),
        ("[]", "1 to 1000 steps"),
        ("{}", "malformed"),
        ("null", "malformed"),
        ('"step0.result"', "malformed"),
        ('[{"op": "read_file", "op": "send_email"}]', "'op' occurs twice"),
        (step(args={"path": float("nan")}), "NaN is no JSON number"),
        ('[{"op": "read_file", "args": {"path": 1e400}}]', "1e400 is no JSON number"),
        ('[{"op": "read_file", "args": {"path": 1' + "0" * 5000 + "}}]", "not JSON"),
        ("[" * 120 + "]" * 120, "nested more than 28 levels"),
        ("[" * 100_000, "nested more than 28 levels"),
        (step(extra=1), "malformed at /0/extra"),
        (step(deps=["0"]), "malformed at /0/deps/0"),
        (step(deps=[True]), "malformed at /0/deps/0"),
        (step(retry=10**9), "malformed at /0/retry"),
        (step(op="Read File"), "malformed at /0/op"),
        (step(args={"__proto__": {"path": "b"}}), "not the name of an argument"),
        (step(args={"path": {"__proto__": 1}}), "not allowed in arguments"),
        (step(args={"path": {"a": {"$where": 1}}}), "not allowed in arguments"),
        (step(args={"path": "see step0.result"}), "inside a text"),
        (step(args={"path": "{{ step0 }}"}), "inside a text"),
        (step(args={"path": ["${step0}"]}), "inside a text"),
        (step(args={"path": {"step0.result": 1}}), "not allowed in arguments"),
        (step(args={"path": {"$ref": "step0.result", "or": 1}}), "without other keys"),
        (step(args={"path": {"$ref": 0}}), "without other keys"),
        (step(args={"path": {"$ref": "step01.result"}}), "is not a reference"),
        (step(args={"path": {"$ref": "step0"}}), "is not a reference"),
        (step(when={"$ref": "steps"}), "is not a reference"),
        ('[{"op": "read_file", "args": {"path": "\\ud800"}}]', "not Unicode"),
        ("[" * 100_000, "not JSON"),
        (step(args={"path": json.loads("[" * 40 + "]" * 40)}), "nested more than"),
        (json.dumps([json.loads(READ)] * (MAX_STEPS + 1)), "1 to 1000 steps"),
        (" " * (MAX_CHARS + 1), "characters, more than"),
    ],
)
def test_invalid_plan_json_is_refused(text: str, message: str) -> None:
    with pytest.raises(PlanInvalid, match=message):
        parse_plan(text, prompt="p")


@pytest.mark.parametrize(
    ("changes", "argument", "message"),
    [
        ({"op": "launch_rocket"}, "/op", "no operation 'launch_rocket'; known: fetch"),
        ({"args": {"path": "a", "mode": "w"}}, "/mode", "takes no 'mode'"),
        ({"args": {}}, "/path", "needs 'path'"),
        ({"tool_caps": ["ROOT"]}, "/tool_caps", "requires exactly READ_FILE"),
        ({"data_caps": ["share_with:mallory"]}, "/data_caps", "no data capability"),
        ({"data_caps": ["share_with:"]}, "/data_caps", "no data capability"),
        ({"deps": [0]}, "/deps", "does not come before"),
        ({"deps": [7]}, "/deps", "does not come before"),
        ({"deps": [-1]}, "/deps", "does not come before"),
        ({"args": {"path": "step0.result"}}, "/path", "not among its dependencies"),
        ({"args": {"path": {"$ref": "step9.result"}}}, "/path", "not among its dependencies"),
        ({"args": {"path": {"$ref": "item"}}}, "/path", "no foreach"),
        ({"args": {"path": {"$ref": "input.mail"}}}, "/path", "no 'input.mail'"),
        ({"foreach": {"$ref": "item"}}, "/foreach", "only the arguments may refer"),
        ({"when": {"$ref": "step4.result"}}, "/when", "not among its dependencies"),
        ({"args": {"path": "x" * 300_000}}, "/args", "characters"),
    ],
)
def test_a_plan_that_cannot_work_is_denied_before_anything_runs(
    changes: dict[str, object], argument: str, message: str
) -> None:
    decision = check_plan(plan(step(**changes)), REGISTRY, AUTHORITY)
    assert isinstance(decision, Denied)
    assert decision.argument == argument
    assert message in decision.reason


def test_circular_dependencies_are_denied() -> None:
    one, other = json.loads(READ), json.loads(READ)
    cycle = json.dumps([{**one, "deps": [1]}, {**other, "deps": [0]}])
    assert isinstance(check_plan(plan(cycle), REGISTRY, AUTHORITY), Denied)


def test_a_bare_reference_becomes_a_typed_one() -> None:
    read = plan(SEED).steps[1]
    assert read.args["attachment_ref"] == {"$ref": "step0.result"}


def test_a_plan_is_a_list_or_an_object_with_steps() -> None:
    assert plan(SEED) == plan(f'{{"steps": {SEED}}}')


def test_the_id_of_a_plan_depends_on_its_steps() -> None:
    text = step(args={"path": "a"})
    assert plan(text).id == plan(json.dumps(json.loads(text), indent=3)).id
    assert plan(text).id != plan(step(args={"path": "b"})).id
    again = parse_plan(json.dumps(plan(SEED).as_json(), default=dict), prompt="p")
    assert again.id == plan(SEED).id


def test_when_foreach_and_retry_are_parsed() -> None:
    read = plan(step(when={"$ref": "step0.result/ok"}, foreach={"$ref": "input.x"}, retry=2))
    assert (read.steps[0].when, read.steps[0].foreach) == (Ref("step0", ("ok",)), Ref("input.x"))
    assert read.steps[0].retry == 2


def test_the_schema_for_models_is_an_object_with_steps() -> None:
    schema = plan_schema()
    assert schema["required"] == ["steps"]
    assert "$ref" in json.dumps(schema)
