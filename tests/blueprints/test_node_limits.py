"""What the engine does for every node: time limits, env, inert and redacted output."""

from threading import Event

import pytest

from blueprints.dsl import agentic, blueprint, deterministic, preflight
from blueprints.engine import NodeRunner, RunListener, execute_blueprint
from contracts.run import NodeResult, RunContext
from contracts.sandbox import Sandbox
from nodes.commands import command, shell
from nodes.text import make_redactor
from sandbox.scripted import ScriptedSandbox
from tests.support.small_nodes import agent_done, agent_writes, fails, run, works
from tests.support.waiting import LONG_S
from tests.support.workspace import context


def test_a_nodes_time_limit_ends_its_command(sandbox: ScriptedSandbox) -> None:
    report = run(sandbox, deterministic("slow", "", command("sleep", "900"), timeout_s=0.2))
    assert (report.nodes[0].error or "").startswith("timed out after 0.2 s")


def test_the_time_limit_of_a_node_covers_all_its_commands(sandbox: ScriptedSandbox) -> None:
    def many(ctx: RunContext, sandbox: Sandbox) -> NodeResult:
        results = [command("sleep", "0.1")(ctx, sandbox) for _ in range(50)]
        return results[-1]

    report = run(sandbox, deterministic("many", "", many, timeout_s=0.5))
    assert (report.nodes[0].error or "").startswith("timed out after 0.5 s")


def test_the_time_limit_of_a_node_covers_its_python_functions(sandbox: ScriptedSandbox) -> None:
    released = Event()

    def hangs(ctx: RunContext, *_: Sandbox) -> NodeResult:
        released.wait()
        return NodeResult.success("late")

    def hangs_too(ctx: RunContext) -> str:
        released.wait()
        return "late"

    nodes = (
        deterministic("work", "", hangs, timeout_s=0.05),
        preflight("skip", "", works(), skip=lambda ctx: bool(hangs_too(ctx)), timeout_s=0.05),
        agentic("ask", "", prompt=hangs_too, timeout_s=0.05),
    )
    try:
        for node in nodes:
            report = run(sandbox, node, agent=agent_writes)
            said = "timed out after 0.05 s: its Python function did not return"
            assert (report.failed_node, report.nodes[0].error) == (node.name, said)
            assert report.nodes[0].duration_ms >= 50
    finally:
        released.set()


def test_an_exception_of_a_bounded_function_is_the_nodes(sandbox: ScriptedSandbox) -> None:
    def broken(ctx: RunContext, sandbox: Sandbox) -> NodeResult:
        raise ZeroDivisionError("a bug")

    with pytest.raises(ZeroDivisionError, match="a bug"):
        run(sandbox, deterministic("a", "", broken, timeout_s=LONG_S))


def test_a_node_that_ended_in_time_is_no_failure(sandbox: ScriptedSandbox) -> None:
    report = run(sandbox, deterministic("quick", "", command("true"), timeout_s=LONG_S))
    assert report.nodes[0].status == "success"


def test_the_runs_env_reaches_commands(sandbox: ScriptedSandbox) -> None:
    made = blueprint("test", "", [deterministic("a", "", shell("echo $COLOUR"))])
    ctx = context(sandbox, env={"COLOUR": "green"})
    report = execute_blueprint(made, ctx, sandbox=sandbox, run_agent=agent_done)
    assert report.nodes[0].output == "green"


def test_terminal_escapes_in_output_are_removed(sandbox: ScriptedSandbox) -> None:
    report = run(sandbox, deterministic("a", "", command("printf", "\\033]0;title\\007text")))
    assert report.nodes[0].output == "text"


def test_terminal_escapes_in_an_error_are_removed(sandbox: ScriptedSandbox) -> None:
    report = run(sandbox, deterministic("a", "", fails("\x1b[31mboom\x1b[0m")))
    assert report.nodes[0].error == "boom"


def test_long_output_keeps_its_beginning_and_its_end(sandbox: ScriptedSandbox) -> None:
    report = run(sandbox, deterministic("a", "", command("seq", "1", "50000")))
    output = report.nodes[0].output
    assert output.startswith("1\n2\n")
    assert output.endswith("50000")


SECRET = "sk-a-very-long-secret"


def test_secrets_in_output_and_errors_are_redacted(sandbox: ScriptedSandbox) -> None:
    run_node = NodeRunner(sandbox, agent_done, redact=make_redactor({"A_KEY": SECRET}))
    node = deterministic("a", "", shell(f"echo {SECRET}; exit 1"))
    result = run_node(node, context(sandbox))
    assert SECRET not in f"{result.output} {result.error}"


def test_secrets_in_live_lines_are_redacted(sandbox: ScriptedSandbox) -> None:
    lines: list[str] = []
    watch = RunListener(on_line=lambda name, line: lines.append(line))
    run_node = NodeRunner(
        sandbox, agent_done, redact=make_redactor({"A_KEY": SECRET}), listener=watch
    )
    run_node(deterministic("a", "", command("echo", SECRET)), context(sandbox))
    assert lines == ["[redacted]"]
