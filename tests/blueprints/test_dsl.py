"""The functions that make blueprints, and the input that they refuse."""

import math

import pytest

from blueprints.dsl import (
    agentic,
    blueprint,
    compete,
    deterministic,
    parallel,
    preflight,
    step,
    validate,
)
from blueprints.types import Blueprint
from contracts.errors import BlueprintInvalid
from contracts.run import NodeResult, RunContext
from contracts.sandbox import Sandbox
from nodes.types import Agentic


def ok(ctx: RunContext, sandbox: Sandbox) -> NodeResult:
    return NodeResult.success()


def a_fix(name: str = "fix") -> Agentic:
    return agentic(name, "Fix it", prompt=lambda ctx: "fix it")


def test_blueprint_gives_a_blueprint_with_its_nodes_in_order() -> None:
    made = blueprint("b", "A test", [preflight("one", "", ok), deterministic("two", "", ok)])
    assert isinstance(made, Blueprint)
    assert [node.name for node in made.nodes] == ["one", "two"]


def test_agentic_allows_every_tool_by_default() -> None:
    assert a_fix().allowed_tools is None


def test_validate_retries_twice_by_default() -> None:
    assert validate("a", "", steps=[step("s", ok)], on_failure=a_fix()).max_retries == 2


def test_a_blueprint_has_its_options() -> None:
    made = blueprint("b", "", [preflight("a", "", ok)], options={"test": "how to test"})
    assert made.options == {"test": "how to test"}


def test_an_empty_blueprint_is_refused() -> None:
    with pytest.raises(BlueprintInvalid, match="'b' has no nodes"):
        blueprint("b", "", [])


def test_a_name_used_twice_is_refused() -> None:
    with pytest.raises(BlueprintInvalid, match="uses a node name twice: 'a'"):
        blueprint("b", "", [preflight("a", "", ok), deterministic("a", "", ok)])


def test_a_fix_named_like_another_node_is_refused() -> None:
    check = validate("check", "", steps=[step("s", ok)], on_failure=a_fix("a"))
    with pytest.raises(BlueprintInvalid, match="twice: 'a'"):
        blueprint("b", "", [preflight("a", "", ok), check])


def test_a_node_named_like_the_step_of_another_is_refused() -> None:
    check = validate("v", "", steps=[step("t", ok)], on_failure=a_fix())
    with pytest.raises(BlueprintInvalid, match="twice: 'v/t'; a step counts too"):
        blueprint("b", "", [deterministic("v/t", "", ok), parallel("p", "", [[check]])])


def test_a_node_named_like_the_step_of_an_entrant_is_refused() -> None:
    tried = compete("c", "", prompt=lambda ctx: "", steps=[step("t", ok)])
    with pytest.raises(BlueprintInvalid, match="twice: 'c-2/t'"):
        blueprint("b", "", [tried, deterministic("c-2/t", "", ok)])


def test_a_node_named_like_an_attempt_is_refused() -> None:
    with pytest.raises(BlueprintInvalid, match=r"'fix \(attempt 1\)': names of this form"):
        blueprint("b", "", [deterministic("fix (attempt 1)", "", ok)])


def test_nested_lanes_have_each_name_once() -> None:
    check = validate("v", "", steps=[step("t", ok)], on_failure=a_fix())
    made = blueprint("b", "", [parallel("p", "", [[parallel("q", "", [[check]])]])])
    assert made.all_names() == ["p", "q", "v", "fix"]


@pytest.mark.parametrize("name", ["", "Fix Tests", "../x", "-x", "a/b", "x" * 64])
def test_a_name_that_cannot_be_a_branch_is_refused(name: str) -> None:
    with pytest.raises(BlueprintInvalid, match="is not usable"):
        blueprint(name, "", [preflight("a", "", ok)])


def test_a_node_or_a_step_without_a_name_is_refused() -> None:
    with pytest.raises(BlueprintInvalid, match="a node has an empty name"):
        preflight("  ", "", ok)
    with pytest.raises(BlueprintInvalid, match="a step has an empty name"):
        step("", ok)


@pytest.mark.parametrize("name", ["two\nlines", "\x1b[31mred"])
def test_a_name_with_control_characters_is_refused(name: str) -> None:
    with pytest.raises(BlueprintInvalid, match="without control characters"):
        deterministic(name, "", ok)
    with pytest.raises(BlueprintInvalid, match="without control characters"):
        step(name, ok)


@pytest.mark.parametrize("timeout_s", [0, -1.5, math.nan, math.inf])
def test_a_timeout_that_leaves_no_time_is_refused(timeout_s: float) -> None:
    with pytest.raises(BlueprintInvalid, match=f"'a' has timeout_s={timeout_s}"):
        deterministic("a", "", ok, timeout_s=timeout_s)


@pytest.mark.parametrize("count", [-1, 1.5, True])
def test_an_invalid_retry_count_is_refused(count: int) -> None:
    with pytest.raises(BlueprintInvalid, match=f"'a' has max_retries={count}: .* whole number, 0"):
        validate("a", "", steps=[step("s", ok)], on_failure=a_fix(), max_retries=count)


@pytest.mark.parametrize("count", [-1, 0, 2.5])
def test_an_agent_without_turns_is_refused(count: int) -> None:
    with pytest.raises(BlueprintInvalid, match=f"'a' has max_turns={count}: .* whole number, 1"):
        agentic("a", "", prompt=lambda ctx: "", max_turns=count)
    with pytest.raises(BlueprintInvalid, match=f"'a' has max_tokens={count}: .* whole number, 1"):
        agentic("a", "", prompt=lambda ctx: "", max_tokens=count)


def test_a_validate_node_without_steps_is_refused() -> None:
    with pytest.raises(BlueprintInvalid, match="'a' has no steps"):
        validate("a", "", steps=[], on_failure=a_fix())


def test_a_step_named_twice_is_refused() -> None:
    with pytest.raises(BlueprintInvalid, match="names a step twice"):
        validate("a", "", steps=[step("s", ok), step("s", ok)], on_failure=a_fix())
