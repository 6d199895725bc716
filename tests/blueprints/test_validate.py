"""The validate loop: steps, fixes, rounds."""

from contracts.run import NodeResult, RunContext
from contracts.sandbox import Sandbox
from nodes.types import Agentic
from sandbox.scripted import ScriptedSandbox
from tests.support.small_nodes import FIXED, agent_writes, check, fails, run, works


def test_steps_that_pass_at_once_need_no_fix(sandbox: ScriptedSandbox) -> None:
    report = run(sandbox, check(works()))
    assert [node.name for node in report.nodes] == ["check"]
    assert len(report.nodes[0].attempts) == 1


def test_steps_pass_after_a_fix(sandbox: ScriptedSandbox) -> None:
    report = run(sandbox, check(FIXED), agent=agent_writes)
    assert report.nodes[0].status == "success"
    assert [a.steps["test"].status for a in report.nodes[0].attempts] == ["failure", "success"]


def test_a_fix_is_an_entry_of_its_own(sandbox: ScriptedSandbox) -> None:
    report = run(sandbox, check(FIXED), agent=agent_writes)
    assert [(node.name, node.type) for node in report.nodes] == [
        ("check", "validate"),
        ("fix", "agentic"),
    ]


def test_exhausted_retries_are_a_failure(sandbox: ScriptedSandbox) -> None:
    report = run(sandbox, check(fails()))
    assert report.nodes[0].status == "failure"
    assert [attempt.number for attempt in report.nodes[0].attempts] == [1, 2, 3]


def test_a_fix_that_worked_does_not_hide_that_the_steps_fail(sandbox: ScriptedSandbox) -> None:
    report = run(sandbox, check(fails(), max_retries=1))
    assert [node.status for node in report.nodes] == ["failure", "success"]
    assert report.status == "failure"


def test_a_failed_fix_whose_steps_pass_is_no_failed_run(sandbox: ScriptedSandbox) -> None:
    def gives_up(node: Agentic, ctx: RunContext, sandbox: Sandbox) -> NodeResult:
        sandbox.write_file("fixed", b"")
        return NodeResult.failure("out of turns")

    report = run(sandbox, check(FIXED), agent=gives_up)
    assert (report.status, report.nodes[1].status) == ("success", "failure")


def test_the_failing_output_reaches_the_fix_prompt(sandbox: ScriptedSandbox) -> None:
    report = run(sandbox, check(FIXED), agent=agent_writes)
    assert report.nodes[1].output == "fix: looking for the fix"


def test_a_fix_entry_holds_what_all_its_rounds_took(sandbox: ScriptedSandbox) -> None:
    report = run(sandbox, check(fails()), agent=agent_writes)
    assert (report.nodes[1].turns, report.nodes[1].usage.input) == (4, 20)
