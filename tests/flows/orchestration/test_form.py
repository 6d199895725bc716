"""The form of a deployment: what a person sees of each field, and what is refused."""

import pytest
from prefect.exceptions import ParameterTypeError

from blueprints.dsl import blueprint, deterministic
from flows.approve import run_plan
from flows.deployed import run_blueprint
from flows.execution.wiring import build_dependencies
from flows.orchestration.compile import RunFlow, compile_blueprint
from nodes.commands import command

FIELDS = ["repo", "intent", "ref", "agent", "model", "push", "until_green", "budget_usd", "options",
          "user", "company", "secrets", "intent_from", "allow_change", "mcp"]  # fmt: skip


def made() -> RunFlow:
    node = deterministic("say", "say it", command("true"))
    says = blueprint("says", "Says", [node], options={"volume": "how loud it is"})
    return compile_blueprint(says, build_dependencies)


def test_every_field_has_a_title_a_description_and_its_place() -> None:
    fields = made().parameters.properties
    assert sorted(fields, key=lambda name: fields[name]["position"]) == FIELDS
    assert all(field["title"] and field["description"] for field in fields.values())


def test_run_blueprint_asks_for_the_blueprint_first() -> None:
    fields = run_blueprint.parameters.properties
    assert sorted(fields, key=lambda name: fields[name]["position"]) == ["blueprint", *FIELDS]


def test_a_repository_is_asked_for_and_may_not_be_empty() -> None:
    assert made().parameters.required == ["repo"]
    assert made().parameters.properties["repo"]["minLength"] == 1


def test_a_run_and_a_plan_can_be_permitted_to_change_protected_files() -> None:
    for flow in (made(), run_blueprint, run_plan):
        field = flow.parameters.properties["allow_change"]
        assert (field["type"], field["default"]) == ("array", [])
        assert "protected files that this run may change" in field["description"]


def test_an_agent_is_chosen_from_a_list() -> None:
    agent = made().parameters.properties["agent"]
    assert agent["enum"] == [
        "configured",
        "native",
        "claude-code",
        "pi",
        "opencode",
        "codex",
        "qwen-code",
        "gemini",
        "goose",
    ]


def test_each_option_of_the_blueprint_is_a_field_and_no_other_is_taken() -> None:
    options = made().parameters.properties["options"]
    assert options["properties"]["volume"]["description"] == "How loud it is."
    assert options["additionalProperties"] is False


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("agent", "nobody"),
        ("budget_usd", 0),
        ("budget_usd", 10_001),
        ("push", "perhaps"),
        ("until_green", -1),
        ("until_green", 21),
        ("allow_change", [""]),
        ("allow_change", ["x" * 501]),
        ("allow_change", ["x"] * 101),
        ("secrets", {"LD_PRELOAD": "team-a-key"}),
        ("secrets", {"OPENAI_API_KEY": "sk-Live_0123456789"}),
    ],
)
def test_a_value_that_does_not_fit_is_refused(field: str, value: object) -> None:
    given: dict[str, object] = {"repo": "/srv/git/some", field: value}
    with pytest.raises(ParameterTypeError, match=field):
        made().validate_parameters(given)
