"""What an agent proposes is read from its answer, and held against the terms of its nodes."""

import json

import pytest

from blueprints.dsl import agentic, blueprint, comment, label, open_issue
from contracts.run import NodeResult, RunContext
from nodes.outputs.inert import FORGE_CAP
from nodes.outputs.proposals import (
    Comment,
    Issue,
    Labels,
    Proposed,
    Refusal,
    proposals,
    proposed_result,
)
from nodes.types import Output

LOOK = agentic("look", "", prompt=lambda _: "look")
ANSWER = comment("answer", "", max_chars=20)
CHOOSE = label("choose", "", ["bug", "question", "wontfix"], max_count=2)
REPORT = open_issue("report", "", max_count=2, labels=["agent"])


def outputs(proposed: object) -> str:
    """An answer that proposes this."""
    return f"Here you are.\n\n```outputs\n{json.dumps(proposed)}\n```\nBye."


def proposed_in(answer: str, node: Output) -> tuple[Proposed, ...]:
    made = blueprint("b", "", [LOOK, node]).nodes[1]
    assert isinstance(made, Output)
    return proposals(made, {"look": NodeResult.success(answer)})


def test_a_comment_labels_and_issues_are_proposed_by_the_names_of_their_nodes() -> None:
    answer = outputs(
        {
            "answer": {"body": "It *works*."},
            "choose": {"add": ["bug", "question"]},
            "report": [{"title": "One", "body": "1"}, {"title": "Two", "body": "2"}],
        }
    )
    assert proposed_in(answer, ANSWER) == (Comment(on="issue", body="It *works*."),)
    assert proposed_in(answer, CHOOSE) == (Labels(on="issue", names=("bug", "question")),)
    assert proposed_in(answer, REPORT) == (
        Issue(title="One", body="1", labels=("agent",)),
        Issue(title="Two", body="2", labels=("agent",)),
    )


def test_of_several_blocks_the_last_one_counts() -> None:
    answer = outputs({"answer": {"body": "first"}}) + outputs({"answer": {"body": "last"}})
    assert proposed_in(answer, ANSWER) == (Comment(on="issue", body="last"),)


def test_a_text_may_have_code_blocks_of_its_own_and_line_ends() -> None:
    answer = '```outputs\n{"answer": {"body": "a\n```\nb\n```"}}\n```'
    assert proposed_in(answer, ANSWER) == (Comment(on="issue", body="a\n\n ```\n b\n ```"),)


@pytest.mark.parametrize(
    "answer", ["", "no block", "```json\n{}\n```", outputs({}), outputs({"x": 1})]
)
def test_an_answer_may_propose_nothing(answer: str) -> None:
    assert proposed_in(answer, ANSWER) == ()


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("```outputs\n", "no JSON object"),
        ("```outputs\n[]", "no JSON object"),
        ("```outputs\n{'answer': 1}", "no JSON object"),
        ("```outputs\n" + '{"answer":' * 100_000, "no JSON object"),
        (outputs({"answer": "text"}), "dictionary"),
        (outputs({"answer": {"body": ""}}), "body"),
        (outputs({"answer": {"body": " \u200b "}}), "the text is empty"),
        (outputs({"answer": {"body": 1}}), "body"),
        (outputs({"answer": {"body": "x", "on": "pull_request"}}), "on: Extra inputs"),
        (outputs({"answer": [{"body": "x"}] * 101}), "101 proposals"),
    ],
)
def test_what_has_another_form_is_refused_with_a_reason(answer: str, why: str) -> None:
    [refused] = proposed_in(answer, ANSWER)
    assert isinstance(refused, Refusal)
    assert why in refused.reason
    assert "\n" not in str(refused)


def test_more_than_the_blueprint_allows_is_refused() -> None:
    answer = outputs(
        {
            "answer": [{"body": "one"}, {"body": "two"}],
            "choose": [{"add": ["bug", "admin"]}, {"add": ["question", "wontfix", "bug"]}],
        }
    )
    assert proposed_in(answer, ANSWER) == (
        Comment(on="issue", body="one"),
        Refusal(reason="more than 1", about="two"),
    )
    assert proposed_in(answer, CHOOSE) == (
        Labels(on="issue", names=("bug", "question")),
        Refusal(reason="the blueprint does not allow this label", about="admin"),
        Refusal(reason="more than 2", about="wontfix"),
    )


def test_a_longer_text_is_cut_and_says_so() -> None:
    [made] = proposed_in(outputs({"answer": {"body": "x" * 21}}), ANSWER)
    assert made == Comment(
        on="issue", body=f"{'x' * 20}\n\n(Cut: the blueprint allows 20 characters.)"
    )


def test_a_text_that_grows_beyond_what_forges_take_is_refused() -> None:
    [made] = proposed_in(
        outputs({"answer": {"body": "<" * 20_000}}), comment("answer", "", max_chars=20_000)
    )
    assert FORGE_CAP < 4 * 20_000
    assert isinstance(made, Refusal)


def test_a_title_is_one_harmless_line() -> None:
    title = "fixes #12\n@octocat " + "x" * 1_000
    [made] = proposed_in(outputs({"report": {"title": title, "body": "b"}}), REPORT)
    assert isinstance(made, Issue)
    assert made.title.startswith("fixes\u200b #\u200b12 @\u200boctocat x")
    assert len(made.title) == 200


def test_the_result_of_a_node_says_what_is_proposed_and_refused() -> None:
    node = blueprint("b", "", [LOOK, CHOOSE]).nodes[1]
    assert isinstance(node, Output)
    said = outputs({"choose": {"add": ["bug", "admin"]}})
    ctx = RunContext(run_id="1", work_dir="/w").with_result("look", NodeResult.success(said))
    result = proposed_result(node, ctx)
    assert (result.status, result.output.splitlines()) == (
        "success",
        ["proposed: bug", "refused: the blueprint does not allow this label: admin"],
    )
    assert "1 refused" in result.remark


def test_a_required_node_fails_without_a_proposal_and_another_is_skipped() -> None:
    for required, status in ((True, "failure"), (False, "skipped")):
        node = blueprint("b", "", [LOOK, comment("answer", "", required=required)]).nodes[1]
        assert isinstance(node, Output)
        ctx = RunContext(run_id="1", work_dir="/w").with_result(
            "look", NodeResult.success("nothing")
        )
        assert proposed_result(node, ctx).status == status
