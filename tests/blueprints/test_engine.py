"""The engine: order, failures, skips, the context, the listener, fixes, and the report."""

import sys
from collections.abc import Callable
from dataclasses import replace

import pytest

from blueprints.dsl import agentic, blueprint, deterministic, preflight
from blueprints.engine import NodeRunner, RunListener, execute_blueprint, run_nodes
from contracts.errors import NodeBroken, SandboxLost
from contracts.run import NodeResult, RunContext
from contracts.sandbox import Sandbox
from nodes.commands import command
from nodes.node_errors import describe_node_error
from nodes.types import Agentic, Node
from sandbox.scripted import ScriptedSandbox
from tests.support.small_nodes import FIXED, agent_done, agent_writes, check, fails, run, works
from tests.support.workspace import context, folder


def test_a_run_succeeds_if_all_nodes_succeed(sandbox: ScriptedSandbox) -> None:
    report = run(
        sandbox,
        preflight("check-git", "check git", works()),
        deterministic("install", "install deps", works("done")),
        agentic("change", "change it", prompt=lambda ctx: "do it"),
    )
    assert [node.status for node in report.nodes] == ["success"] * 3
    assert report.status == "success"


def test_nodes_are_reported_in_order_with_their_types(sandbox: ScriptedSandbox) -> None:
    report = run(
        sandbox,
        preflight("a", "", works()),
        deterministic("b", "", works()),
        agentic("c", "", prompt=lambda ctx: ""),
        check(works()),
    )
    assert [(node.name, node.type) for node in report.nodes] == [
        ("a", "preflight"),
        ("b", "deterministic"),
        ("c", "agentic"),
        ("check", "validate"),
    ]


def test_a_failing_node_stops_the_run(sandbox: ScriptedSandbox) -> None:
    report = run(
        sandbox,
        deterministic("first", "", works()),
        deterministic("fail", "fails", fails()),
        deterministic("never", "never runs", command("touch", "ran")),
    )
    assert [node.name for node in report.nodes] == ["first", "fail"]
    assert not (folder(sandbox) / "ran").exists()


def test_a_failed_run_says_which_node_failed_and_why(sandbox: ScriptedSandbox) -> None:
    report = run(sandbox, deterministic("fail", "fails", fails("boom")))
    assert (report.status, report.error) == ("failure", "node 'fail' failed: boom")


def test_a_skipped_node_is_reported_and_does_not_run(sandbox: ScriptedSandbox) -> None:
    node = deterministic("maybe", "", command("touch", "ran"), skip=lambda ctx: True)
    report = run(sandbox, node)
    assert report.nodes[0].status == "skipped"
    assert not (folder(sandbox) / "ran").exists()


def test_nodes_after_a_skipped_one_still_run(sandbox: ScriptedSandbox) -> None:
    report = run(
        sandbox,
        deterministic("maybe", "", works(), skip=lambda ctx: True),
        deterministic("next", "", works()),
    )
    assert [node.status for node in report.nodes] == ["skipped", "success"]


def test_a_condition_that_is_false_lets_the_node_run(sandbox: ScriptedSandbox) -> None:
    report = run(sandbox, deterministic("maybe", "", works(), skip=lambda ctx: False))
    assert report.nodes[0].status == "success"


def test_a_condition_sees_earlier_results(sandbox: ScriptedSandbox) -> None:
    report = run(
        sandbox,
        deterministic("first", "", works("nothing to do")),
        deterministic(
            "next", "", works(), skip=lambda ctx: "nothing" in ctx.results["first"].output
        ),
    )
    assert report.nodes[1].status == "skipped"


def test_usage_of_all_agents_is_summed(sandbox: ScriptedSandbox) -> None:
    report = run(
        sandbox,
        agentic("a", "", prompt=lambda ctx: "x"),
        agentic("b", "", prompt=lambda ctx: "y"),
        agent=agent_writes,
    )
    assert (report.token_usage.total, report.cost_usd) == (30, 0.5)


def test_the_total_duration_covers_the_nodes(sandbox: ScriptedSandbox) -> None:
    report = run(sandbox, deterministic("a", "", command("sleep", "0.05")))
    assert report.total_duration_ms >= report.nodes[0].duration_ms >= 50


def test_an_exception_of_a_node_ends_the_run(sandbox: ScriptedSandbox) -> None:
    def lost(ctx: RunContext, sandbox: Sandbox) -> NodeResult:
        raise SandboxLost("the container is gone")

    with pytest.raises(SandboxLost, match="the container is gone"):
        run(sandbox, deterministic("a", "", lost))


def test_an_exception_of_a_fix_ends_the_run(sandbox: ScriptedSandbox) -> None:
    def broken(node: Agentic, ctx: RunContext, sandbox: Sandbox) -> NodeResult:
        raise ZeroDivisionError("a bug")

    with pytest.raises(ZeroDivisionError):
        run(sandbox, check(fails()), agent=broken)


def test_an_exception_of_a_skip_condition_ends_the_run(sandbox: ScriptedSandbox) -> None:
    node = deterministic("a", "", works(), skip=lambda ctx: bool(ctx.results["no such node"]))
    with pytest.raises(KeyError):
        run(sandbox, node)


def test_an_exception_of_a_step_names_step_and_line(sandbox: ScriptedSandbox) -> None:
    def broken(ctx: RunContext, sandbox: Sandbox) -> NodeResult:
        return NodeResult.success(str(1 // 0))

    with pytest.raises(ZeroDivisionError) as raised:
        run(sandbox, check(broken))
    line = broken.__code__.co_firstlineno + 1
    assert describe_node_error(raised.value) == (
        "node 'check/test (attempt 1)' of the blueprint raised ZeroDivisionError: "
        f"integer division or modulo by zero ({__file__}:{line})"
    )


def test_a_node_that_exits_the_process_is_broken(sandbox: ScriptedSandbox) -> None:
    with pytest.raises(NodeBroken, match=r"node 'a' of the blueprint raised SystemExit: 3 \(.*py:"):
        run(sandbox, deterministic("a", "", lambda ctx, sandbox: sys.exit(3)))


def test_a_context_with_another_work_dir_is_refused(sandbox: ScriptedSandbox) -> None:
    made = blueprint("test", "", [deterministic("a", "", works())])
    elsewhere = replace(context(sandbox), work_dir="/elsewhere")
    with pytest.raises(ValueError, match="'/elsewhere'"):
        execute_blueprint(made, elsewhere, sandbox=sandbox, run_agent=agent_done)


def test_a_string_for_an_argv_raises() -> None:
    with pytest.raises(TypeError):
        deterministic("a", "", command("rm -rf ."))


def test_a_checkpoint_follows_every_node_with_its_result(sandbox: ScriptedSandbox) -> None:
    checkpoints: list[list[str]] = []
    nodes = [deterministic("a", "", works()), deterministic("b", "", fails())]
    run_nodes(
        nodes,
        context(sandbox),
        NodeRunner(sandbox, agent_done),
        checkpoint=lambda ctx: checkpoints.append(list(ctx.results)),
    )
    assert checkpoints == [["a"], ["a", "b"]]


def test_every_node_step_and_fix_is_wrapped(sandbox: ScriptedSandbox) -> None:
    performed: list[str] = []

    def perform(node: Node, execute: Callable[[], NodeResult]) -> NodeResult:
        performed.append(node.name)
        return execute()

    run_node = NodeRunner(sandbox, agent_writes, wrap=perform)
    run_nodes([check(FIXED)], context(sandbox), run_node)
    assert performed == [
        "check",
        "check/test (attempt 1)",
        "fix (attempt 1)",
        "check/test (attempt 2)",
    ]


def test_later_nodes_see_earlier_results(sandbox: ScriptedSandbox) -> None:

    def repeat(ctx: RunContext, sandbox: Sandbox) -> NodeResult:
        return NodeResult.success(ctx.results["first"].output)

    report = run(
        sandbox,
        deterministic("first", "", works("hello")),
        deterministic("second", "", repeat),
    )
    assert report.nodes[1].output == "hello"


def test_a_prompt_sees_earlier_results(sandbox: ScriptedSandbox) -> None:
    report = run(
        sandbox,
        deterministic("A", "", works("foo")),
        agentic("B", "", prompt=lambda ctx: ctx.results["A"].output),
        agent=agent_writes,
    )
    assert report.nodes[1].output == "foo"


def test_later_nodes_see_each_steps_last_result(sandbox: ScriptedSandbox) -> None:
    def repeat(ctx: RunContext, sandbox: Sandbox) -> NodeResult:
        return NodeResult.success(ctx.results["check/test"].status)

    report = run(sandbox, check(FIXED), deterministic("next", "", repeat), agent=agent_writes)
    assert report.nodes[-1].output == "success"


def test_the_context_of_a_node_never_changes(sandbox: ScriptedSandbox) -> None:
    seen: list[RunContext] = []

    def look(ctx: RunContext, sandbox: Sandbox) -> NodeResult:
        seen.append(ctx)
        return NodeResult.success()

    run(sandbox, deterministic("a", "", look), deterministic("b", "", look))
    assert [list(ctx.results) for ctx in seen] == [[], ["a"]]


def test_the_listener_gets_each_result(sandbox: ScriptedSandbox) -> None:
    calls: list[tuple[str, str]] = []
    watch = RunListener(on_node_complete=lambda name, result: calls.append((name, result.status)))
    run(sandbox, preflight("a", "", works()), deterministic("b", "", fails()), watch=watch)
    assert calls == [("a", "success"), ("b", "failure")]


def test_the_listener_is_called_before_each_node(sandbox: ScriptedSandbox) -> None:
    calls: list[str] = []
    watch = RunListener(
        on_node_start=lambda name: calls.append(f"start {name}"),
        on_node_complete=lambda name, result: calls.append(f"end {name}"),
    )
    run(sandbox, deterministic("a", "", works()), deterministic("b", "", works()), watch=watch)
    assert calls == ["start a", "end a", "start b", "end b"]


def test_the_listener_gets_attempts_at_steps_and_fixes(sandbox: ScriptedSandbox) -> None:
    calls: list[str] = []
    run(sandbox, check(FIXED), agent=agent_writes, watch=RunListener(on_node_start=calls.append))
    assert calls == [
        "check",
        "check/test (attempt 1)",
        "fix (attempt 1)",
        "check/test (attempt 2)",
    ]


def test_the_listener_gets_lines_with_the_name_of_the_node(sandbox: ScriptedSandbox) -> None:
    calls: list[tuple[str, str]] = []
    watch = RunListener(on_line=lambda name, line: calls.append((name, line)))
    run(sandbox, deterministic("greet", "", command("echo", "hello")), watch=watch)
    assert calls == [("greet", "hello")]


def test_the_listener_gets_skipped_nodes(sandbox: ScriptedSandbox) -> None:
    calls: list[str] = []
    watch = RunListener(on_node_complete=lambda name, result: calls.append(result.status))
    run(sandbox, deterministic("a", "", works(), skip=lambda ctx: True), watch=watch)
    assert calls == ["skipped"]


def test_steps_pass_after_a_fix(sandbox: ScriptedSandbox) -> None:
    report = run(sandbox, check(FIXED), agent=agent_writes)
    assert report.nodes[0].status == "success"
    assert [a.steps["test"].status for a in report.nodes[0].attempts] == ["failure", "success"]


def test_a_fix_has_a_report_of_its_own(sandbox: ScriptedSandbox) -> None:
    report = run(sandbox, check(FIXED), agent=agent_writes)
    assert [(node.name, node.type) for node in report.nodes] == [
        ("check", "validate"),
        ("fix", "agentic"),
    ]


def test_a_successful_fix_does_not_hide_failing_steps(sandbox: ScriptedSandbox) -> None:
    report = run(sandbox, check(fails(), max_retries=1))
    assert [node.status for node in report.nodes] == ["failure", "success"]
    assert report.status == "failure"


def test_a_failed_fix_does_not_fail_the_run_if_the_steps_pass(sandbox: ScriptedSandbox) -> None:
    def gives_up(node: Agentic, ctx: RunContext, sandbox: Sandbox) -> NodeResult:
        sandbox.write_file("fixed", b"")
        return NodeResult.failure("out of turns")

    report = run(sandbox, check(FIXED), agent=gives_up)
    assert (report.status, report.nodes[1].status) == ("success", "failure")


def test_the_failing_output_reaches_the_fix_prompt(sandbox: ScriptedSandbox) -> None:
    report = run(sandbox, check(FIXED), agent=agent_writes)
    assert report.nodes[1].output == "fix: looking for the fix"


def test_the_report_of_a_fix_sums_all_rounds(sandbox: ScriptedSandbox) -> None:
    report = run(sandbox, check(fails()), agent=agent_writes)
    assert (report.nodes[1].turns, report.nodes[1].usage.input) == (4, 20)
