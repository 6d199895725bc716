"""What is told while a run goes on."""

from blueprints.dsl import deterministic, preflight
from blueprints.engine import RunListener
from nodes.commands import command
from sandbox.scripted import ScriptedSandbox
from tests.support.small_nodes import FIXED, agent_writes, check, fails, run, works


def test_each_completed_node_is_told_with_its_result(sandbox: ScriptedSandbox) -> None:
    told: list[tuple[str, str]] = []
    watch = RunListener(on_node_complete=lambda name, result: told.append((name, result.status)))
    run(sandbox, preflight("a", "", works()), deterministic("b", "", fails()), watch=watch)
    assert told == [("a", "success"), ("b", "failure")]


def test_each_node_is_told_before_it_starts(sandbox: ScriptedSandbox) -> None:
    told: list[str] = []
    watch = RunListener(
        on_node_start=lambda name: told.append(f"start {name}"),
        on_node_complete=lambda name, result: told.append(f"end {name}"),
    )
    run(sandbox, deterministic("a", "", works()), deterministic("b", "", works()), watch=watch)
    assert told == ["start a", "end a", "start b", "end b"]


def test_steps_and_fixes_are_told_by_attempt(sandbox: ScriptedSandbox) -> None:
    told: list[str] = []
    run(sandbox, check(FIXED), agent=agent_writes, watch=RunListener(on_node_start=told.append))
    assert told == [
        "check",
        "check/test (attempt 1)",
        "fix (attempt 1)",
        "check/test (attempt 2)",
    ]


def test_lines_are_told_with_the_node_that_prints_them(sandbox: ScriptedSandbox) -> None:
    told: list[tuple[str, str]] = []
    watch = RunListener(on_line=lambda name, line: told.append((name, line)))
    run(sandbox, deterministic("greet", "", command("echo", "hello")), watch=watch)
    assert told == [("greet", "hello")]


def test_a_skipped_node_is_told_too(sandbox: ScriptedSandbox) -> None:
    told: list[str] = []
    watch = RunListener(on_node_complete=lambda name, result: told.append(result.status))
    run(sandbox, deterministic("a", "", works(), skip=lambda ctx: True), watch=watch)
    assert told == ["skipped"]
