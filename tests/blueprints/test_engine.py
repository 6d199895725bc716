"""The engine, from the seed's acceptance criteria on (AC-9 and AC-10: test_dsl.py)."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from blueprints.dsl import agentic, blueprint, deterministic, preflight, step, validate
from blueprints.engine import Watch, execute_blueprint, node_runner, run_nodes
from contracts.chat import Usage
from contracts.errors import SandboxLost
from contracts.run import NodeResult, RunContext, RunReport
from contracts.sandbox import Sandbox
from nodes.commands import command, shell
from nodes.text import redactor
from nodes.types import Agentic, Node, Validate, Work
from sandbox.scripted import ScriptedSandbox
from tests.nodes.workspace import context, folder

Agent = Callable[[Agentic, RunContext, Sandbox], NodeResult]


def works(output: str = "ok") -> Work:
    return lambda ctx, sandbox: NodeResult.success(output)


def fails(error: str = "boom") -> Work:
    return lambda ctx, sandbox: NodeResult.failure(error, "err")


def agent_done(node: Agentic, ctx: RunContext, sandbox: Sandbox) -> NodeResult:
    return NodeResult.success("agent done")


def agent_writes(node: Agentic, ctx: RunContext, sandbox: Sandbox) -> NodeResult:
    sandbox.write_file("fixed", b"")
    used = Usage(input=10, output=5, cost_usd=0.25)
    return NodeResult(status="success", output=node.prompt(ctx), usage=used, turns=2)


def check(exec: Work, *, max_retries: int = 2) -> Validate:  # noqa: A002 - the seed's word
    fix = agentic("fix", "Fix", prompt=lambda ctx: f"fix: {ctx.results['check/test'].output}")
    return validate(
        "check", "Validate", steps=[step("test", exec)], on_failure=fix, max_retries=max_retries
    )


FIXED = shell("echo looking for the fix; test -e fixed")


def run(
    sandbox: ScriptedSandbox, *nodes: Node, agent: Agent = agent_done, watch: Watch | None = None
) -> RunReport:
    made = blueprint("test", "A test", nodes)
    ctx = context(sandbox, intent="test")
    return execute_blueprint(made, ctx, sandbox=sandbox, run_agent=agent, watch=watch)


def test_a_happy_path_ends_with_all_nodes_successful(sandbox: ScriptedSandbox) -> None:
    """AC-1."""
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
    """AC-2."""
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
    """AC-3."""
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


def test_steps_that_pass_at_once_need_no_fix(sandbox: ScriptedSandbox) -> None:
    """AC-4."""
    report = run(sandbox, check(works()))
    assert [node.name for node in report.nodes] == ["check"]
    assert len(report.nodes[0].attempts) == 1


def test_steps_pass_after_a_fix(sandbox: ScriptedSandbox) -> None:
    """AC-5."""
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
    """AC-6."""
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


def test_usage_of_all_agents_is_summed(sandbox: ScriptedSandbox) -> None:
    report = run(
        sandbox,
        agentic("a", "", prompt=lambda ctx: "x"),
        agentic("b", "", prompt=lambda ctx: "y"),
        agent=agent_writes,
    )
    assert (report.token_usage.total, report.cost_usd) == (30, 0.5)


def test_later_nodes_see_earlier_results(sandbox: ScriptedSandbox) -> None:
    """AC-7."""

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


def test_a_nodes_context_is_not_changed_by_later_results(sandbox: ScriptedSandbox) -> None:
    seen: list[RunContext] = []

    def look(ctx: RunContext, sandbox: Sandbox) -> NodeResult:
        seen.append(ctx)
        return NodeResult.success()

    run(sandbox, deterministic("a", "", look), deterministic("b", "", look))
    assert [list(ctx.results) for ctx in seen] == [[], ["a"]]


def test_each_completed_node_is_told_with_its_result(sandbox: ScriptedSandbox) -> None:
    """AC-8."""
    told: list[tuple[str, str]] = []
    watch = Watch(on_node_complete=lambda name, result: told.append((name, result.status)))
    run(sandbox, preflight("a", "", works()), deterministic("b", "", fails()), watch=watch)
    assert told == [("a", "success"), ("b", "failure")]


def test_each_node_is_told_before_it_starts(sandbox: ScriptedSandbox) -> None:
    told: list[str] = []
    watch = Watch(
        on_node_start=lambda name: told.append(f"start {name}"),
        on_node_complete=lambda name, result: told.append(f"end {name}"),
    )
    run(sandbox, deterministic("a", "", works()), deterministic("b", "", works()), watch=watch)
    assert told == ["start a", "end a", "start b", "end b"]


def test_steps_and_fixes_are_told_by_attempt(sandbox: ScriptedSandbox) -> None:
    told: list[str] = []
    run(sandbox, check(FIXED), agent=agent_writes, watch=Watch(on_node_start=told.append))
    assert told == [
        "check",
        "check/test (attempt 1)",
        "fix (attempt 1)",
        "check/test (attempt 2)",
    ]


def test_lines_are_told_with_the_node_that_prints_them(sandbox: ScriptedSandbox) -> None:
    told: list[tuple[str, str]] = []
    watch = Watch(on_line=lambda name, line: told.append((name, line)))
    run(sandbox, deterministic("greet", "", command("echo", "hello")), watch=watch)
    assert told == [("greet", "hello")]


def test_a_skipped_node_is_told_too(sandbox: ScriptedSandbox) -> None:
    told: list[str] = []
    watch = Watch(on_node_complete=lambda name, result: told.append(result.status))
    run(sandbox, deterministic("a", "", works(), skip=lambda ctx: True), watch=watch)
    assert told == ["skipped"]


def test_the_total_duration_covers_the_nodes(sandbox: ScriptedSandbox) -> None:
    """AC-11."""
    report = run(sandbox, deterministic("a", "", command("sleep", "0.05")))
    assert report.total_duration_ms >= report.nodes[0].duration_ms >= 50


def test_what_a_node_raises_is_not_swallowed(sandbox: ScriptedSandbox) -> None:
    def lost(ctx: RunContext, sandbox: Sandbox) -> NodeResult:
        raise SandboxLost("the container is gone")

    with pytest.raises(SandboxLost, match="the container is gone"):
        run(sandbox, deterministic("a", "", lost))


def test_what_an_agent_raises_in_a_fix_is_not_swallowed(sandbox: ScriptedSandbox) -> None:
    def broken(node: Agentic, ctx: RunContext, sandbox: Sandbox) -> NodeResult:
        raise ZeroDivisionError("a bug")

    with pytest.raises(ZeroDivisionError):
        run(sandbox, check(fails()), agent=broken)


def test_what_a_condition_raises_is_not_swallowed(sandbox: ScriptedSandbox) -> None:
    node = deterministic("a", "", works(), skip=lambda ctx: bool(ctx.results["no such node"]))
    with pytest.raises(KeyError):
        run(sandbox, node)


def test_a_context_for_another_place_than_the_sandbox_raises(sandbox: ScriptedSandbox) -> None:
    made = blueprint("test", "", [deterministic("a", "", works())])
    elsewhere = replace(context(sandbox), work_dir="/elsewhere")
    with pytest.raises(ValueError, match="'/elsewhere'"):
        execute_blueprint(made, elsewhere, sandbox=sandbox, run_agent=agent_done)


def test_a_string_for_an_argv_raises() -> None:
    with pytest.raises(TypeError):
        deterministic("a", "", command("rm -rf ."))


def test_a_nodes_time_limit_ends_its_command(sandbox: ScriptedSandbox) -> None:
    report = run(sandbox, deterministic("slow", "", command("sleep", "30"), timeout_s=0.2))
    assert (report.nodes[0].error or "").startswith("timed out after 0.2 s")


def test_a_nodes_time_limit_holds_for_its_commands_together(sandbox: ScriptedSandbox) -> None:
    def many(ctx: RunContext, sandbox: Sandbox) -> NodeResult:
        results = [command("sleep", "0.2")(ctx, sandbox) for _ in range(50)]
        return results[-1]

    report = run(sandbox, deterministic("many", "", many, timeout_s=0.5))
    assert report.nodes[0].duration_ms < 2000


def test_a_node_that_ended_in_time_is_no_failure(sandbox: ScriptedSandbox) -> None:
    report = run(sandbox, deterministic("quick", "", command("true"), timeout_s=30))
    assert report.nodes[0].status == "success"


def test_the_runs_env_reaches_commands(sandbox: ScriptedSandbox) -> None:
    made = blueprint("test", "", [deterministic("a", "", shell("echo $COLOUR"))])
    ctx = context(sandbox, env={"COLOUR": "green"})
    report = execute_blueprint(made, ctx, sandbox=sandbox, run_agent=agent_done)
    assert report.nodes[0].output == "green"


def test_terminal_escapes_in_output_are_made_inert(sandbox: ScriptedSandbox) -> None:
    report = run(sandbox, deterministic("a", "", command("printf", "\\033]0;title\\007text")))
    assert report.nodes[0].output == "text"


def test_terminal_escapes_in_an_error_are_made_inert(sandbox: ScriptedSandbox) -> None:
    report = run(sandbox, deterministic("a", "", fails("\x1b[31mboom\x1b[0m")))
    assert report.nodes[0].error == "boom"


def test_long_output_keeps_its_beginning_and_its_end(sandbox: ScriptedSandbox) -> None:
    report = run(sandbox, deterministic("a", "", command("seq", "1", "50000")))
    output = report.nodes[0].output
    assert output.startswith("1\n2\n")
    assert output.endswith("50000")


SECRET = "sk-a-very-long-secret"


def test_secrets_are_blanked_out_in_output_and_errors(sandbox: ScriptedSandbox) -> None:
    run_node = node_runner(sandbox, agent_done, redact=redactor({"A_KEY": SECRET}))
    node = deterministic("a", "", shell(f"echo {SECRET}; exit 1"))
    result = run_node(node, context(sandbox))
    assert SECRET not in f"{result.output} {result.error}"


def test_secrets_are_blanked_out_in_live_lines(sandbox: ScriptedSandbox) -> None:
    lines: list[str] = []
    watch = Watch(on_line=lambda name, line: lines.append(line))
    run_node = node_runner(sandbox, agent_done, redact=redactor({"A_KEY": SECRET}), watch=watch)
    run_node(deterministic("a", "", command("echo", SECRET)), context(sandbox))
    assert lines == ["[redacted]"]


def test_a_checkpoint_follows_every_node_with_its_result(sandbox: ScriptedSandbox) -> None:
    kept: list[list[str]] = []
    nodes = [deterministic("a", "", works()), deterministic("b", "", fails())]
    run_nodes(
        nodes,
        context(sandbox),
        node_runner(sandbox, agent_done),
        checkpoint=lambda ctx: kept.append(list(ctx.results)),
    )
    assert kept == [["a"], ["a", "b"]]


def test_nodes_are_performed_in_the_way_given(sandbox: ScriptedSandbox) -> None:
    performed: list[str] = []

    def perform(node: Node, execute: Callable[[], NodeResult]) -> NodeResult:
        performed.append(node.name)
        return execute()

    run_node = node_runner(sandbox, agent_writes, perform=perform)
    run_nodes([check(FIXED)], context(sandbox), run_node)
    assert performed == [
        "check",
        "check/test (attempt 1)",
        "fix (attempt 1)",
        "check/test (attempt 2)",
    ]
