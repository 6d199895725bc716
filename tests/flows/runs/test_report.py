from dataclasses import replace

from contracts.chat import Usage
from contracts.run import Attempt, NodeReport, NodeResult, RunReport, SurfacedMemory
from contracts.verdicts import FailedTest, Verdicts
from flows.runs.report import dumps, loads, report_markdown, surfaced_markdown, table_rows, to_json
from nodes.text import code_block

CONTRACT = {
    "run_id", "flow_run_id", "blueprint", "repo", "intent", "agent", "model", "status", "nodes",
    "total_duration_ms", "token_usage", "cost_usd", "branch", "base_commit", "commit", "pushed",
    "diff_stat", "surfaced", "decisions", "error",
}  # fmt: skip
"""The fields of ARCHITECTURE.md's CLI contract."""


def a_report(*, error: str | None = None, token_usage: Usage | None = None) -> RunReport:
    node = NodeReport(
        name="verify",
        type="validate",
        status="failure",
        error="test still failed",
        output="1 failed",
        attempts=(Attempt(number=1, steps={"test": NodeResult.failure("exit 1", "1 failed")}),),
        usage=Usage(input=3, output=2, cost_usd=0.5),
    )
    return RunReport(
        run_id="abcd1234",
        blueprint="fix-tests",
        status="failure",
        nodes=(node,),
        error=error,
        token_usage=token_usage or Usage(),
    )


def test_the_json_has_every_field_of_the_contract() -> None:
    assert set(to_json(a_report())) >= CONTRACT


def test_what_memory_gave_leads_to_its_pages_where_these_are_up() -> None:
    shown = SurfacedMemory(playbooks=("p1",), notes=("n1",), examples=("e1",))
    linked = surfaced_markdown(shown, "http://127.0.0.1:4280/")
    for kind, ref in (("playbook", "p1"), ("note", "n1"), ("example", "e1")):
        assert f"- {kind} [`{ref}`](http://127.0.0.1:4280/{kind}s/{ref})" in linked
    assert "- note `n1`" in surfaced_markdown(shown, None)
    assert surfaced_markdown(SurfacedMemory(), None) == ""


def test_token_usage_holds_tokens_only() -> None:
    document = to_json(a_report(token_usage=Usage(input=1, cost_usd=2.0)))
    assert document["token_usage"] == {
        "input": 1, "output": 0, "cache_read": 0, "cache_write": 0,
    }  # fmt: skip


def test_a_report_survives_its_json() -> None:
    assert loads(dumps(a_report())) == a_report()


def test_a_field_of_a_newer_version_is_left_out() -> None:
    text = dumps(a_report()).replace("{", '{"from_the_future": 1,', 1)
    assert loads(text) == a_report()


def test_a_code_block_cannot_be_closed_from_inside() -> None:
    assert code_block("a\n````\nb").startswith("`````\n")


def test_markup_in_an_error_is_inert() -> None:
    text = report_markdown(a_report(error="<img src=x> [link](javascript:1)"), "")
    assert "<img" not in text
    assert "[link](" not in text


def test_the_diff_is_part_of_the_markdown() -> None:
    assert "+new line" in report_markdown(a_report(), "+new line\n")


def test_the_table_has_a_row_for_each_node() -> None:
    assert [(row["node"], row["status"]) for row in table_rows(a_report())] == [
        ("verify", "failure")
    ]


def test_what_an_agent_did_and_used_stands_beside_its_node() -> None:
    node = NodeReport(
        name="mend",
        type="agentic",
        status="success",
        turns=4,
        tool_calls={"read_file": 1, "bash": 2},
        usage=Usage(input=900, output=70, cost_usd=0.001),
    )
    report = replace(a_report(), nodes=(node,))
    assert "| 4 | bash 2, read_file 1 | 970 | 0.0010 |" in report_markdown(report, "").replace(
        "\\_", "_"
    )
    (row,) = table_rows(report)
    assert (row["tools"], row["dollars"]) == ("bash 2, read_file 1", "0.0010")
    assert loads(dumps(report)) == report


def test_results_by_test_are_in_every_form_of_the_report() -> None:
    tests = Verdicts(
        passed=7,
        failed=(FailedTest(name="test_<b>", message="why"),),
        environment=(FailedTest(name="test_page", message="the sandbox has no less"),),
        flaky=("test_now_and_then",),
        reference="tag v1",
    )
    report = replace(a_report(), nodes=(replace(a_report().nodes[0], tests=tests),))
    text = report_markdown(report, "").replace("\\", "")
    assert "- failed: test_&lt;b&gt;" in text
    assert "- environment: test_page (the sandbox has no less)" in text
    assert "- flaky: test_now_and_then" in text
    assert table_rows(report)[0]["tests"] == "7 passed, 1 failed, 1 environment, 1 flaky"
    assert loads(dumps(report)) == report
