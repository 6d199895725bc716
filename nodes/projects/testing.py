"""Run a project's tests: with a time limit, results by test, and why they could not be run."""

import re
import shlex
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from contracts.run import NodeResult, RunContext
from contracts.sandbox import Command, ExecResult, Sandbox
from nodes.commands import command_result
from nodes.node_sandbox import discard_output
from nodes.projects.cases import Cases
from nodes.projects.ecosystems import ecosystems
from nodes.projects.find import find_project
from nodes.projects.leftovers import exec_without_traces
from nodes.projects.missing import missing_message, missing_programs
from nodes.projects.missing_libraries import missing_libraries
from nodes.projects.obstacles import version_obstacle
from nodes.projects.options import time_limit_s
from nodes.projects.runners import (
    OUTPUT_LIMIT,
    RunnerCommand,
    read_results,
    refuses_additions,
    runner_command,
)
from nodes.projects.text_results import text_cases, under_way
from nodes.projects.types import Project

_MEMORY_LIMIT = (
    "cat", "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes",
)  # fmt: skip
"""Files of cgroups version 2 and version 1; one of them is missing."""

STUCK_AFTER_S = 120.0
"""A runner that prints every test is ended early if it stays silent and busy for so long."""

_SHELL_NOT_RUNNABLE = (126, 127)
_PYTEST_USAGE = 4
_PYTEST_NONE = 5
_PYTEST_ERROR = re.compile(r"^(?:\x1b\[[\d;]*m)*ERROR: (.*)", re.MULTILINE)
_CONFTEST_BROKEN = "ImportError while loading conftest"
_PLUGIN_MISSING = re.compile(r"Error importing plugin \"\S+\": No module named \S+\s*\Z")
_NO_TESTS = re.compile(
    r"\nRan 0 tests in [\d.]+s\n\n(OK|NO TESTS RAN)\s*\Z|^No tests were found!!!$", re.MULTILINE
)
_TAP_NONE = re.compile(r"^1\.\.0\s*(# tests 0\s*)?$", re.MULTILINE)
_KILLED = 128
"""A command with a higher exit code was ended by a signal, perhaps before its last test."""


class ProjectTestResult(NamedTuple):
    """Result of a test command.

    `verdict` is True if it says whether the tests pass. `cases` are empty if the runner tells
    nothing by test. `ended` is False if the command was killed, so
    that some tests may not have run.
    """

    result: NodeResult
    verdict: bool
    cases: Cases = MappingProxyType({})
    ended: bool = True
    duration_ms: int = 0


def exec_tests(ctx: RunContext, sandbox: Sandbox) -> ProjectTestResult:
    """Run the project's tests.

    Tests that hang, crash or run out of memory are failing tests: an agent can fix them. A command
    that could not run the tests gives no verdict.
    """
    project = find_project(ctx, sandbox)
    if project.test is None:
        return ProjectTestResult(NodeResult.failure(no_tests(project)), verdict=False)
    limit_s = time_limit_s(ctx.options, project.test_timeout_s)
    command = runner_command(project, ctx, sandbox)
    result = _exec(command, project.cwd, limit_s, sandbox)
    if refuses_additions(result):
        command = RunnerCommand(project.test, project.env, by_test=False, prints_each_test=False)
        result = _exec(command, project.cwd, limit_s, sandbox)
    results = read_results(result, sandbox, by_test=command.by_test)
    cases = results.cases
    lacks, reason = _obstacle(result, cases, project, ctx, sandbox)
    reason = reason or _no_verdict(result, limit_s)
    if reason:
        failed = NodeResult.failure(f"the tests could not be run: {reason}", result.text)
        return ProjectTestResult(replace(failed, lacks=lacks), verdict=False)
    shown = shlex.join(project.test)
    if reason := _killed(result, limit_s, sandbox):
        during = under_way(result.text)
        where = f" in the test {during!r}" if during else ""
        failed = NodeResult.failure(f"{reason}{where}: {shown!r} was killed", result.text)
        return ProjectTestResult(failed, verdict=True, cases=cases, ended=False)
    ended = command_result(result, project.test)
    if result.ok and results.failed:
        error = f"{shown!r} ended with exit code 0, but {results.failed} of its tests failed"
        ended = NodeResult.failure(error, ended.output)
    if result.exit_code > _KILLED and (during := under_way(result.text)):
        ended = replace(ended, error=f"{ended.error}, in the test {during!r}")
    return ProjectTestResult(
        ended,
        verdict=True,
        cases=cases,
        ended=result.exit_code <= _KILLED,
        duration_ms=result.duration_ms,
    )


def _obstacle(
    result: ExecResult, cases: Cases, project: Project, ctx: RunContext, sandbox: Sandbox
) -> tuple[tuple[str, ...], str | None]:
    """Return what the sandbox lacks for these tests, and the reason, or None."""
    if missing := missing_programs(result, sandbox):
        return missing, missing_message(missing, project)
    if not result.ok and not cases and (found := version_obstacle(result.text)):
        return (found.lacks,), found.message
    if reason := missing_libraries(result, cases, project, ctx, sandbox):
        return (f"index of {project.kind}",), reason
    return (), None


def _exec(command: RunnerCommand, cwd: str | None, limit_s: float, sandbox: Sandbox) -> ExecResult:
    return exec_without_traces(
        Command(
            argv=command.argv,
            cwd=cwd,
            env=command.env,
            timeout_s=limit_s,
            output_limit=OUTPUT_LIMIT,
            stuck_after_s=STUCK_AFTER_S if command.prints_each_test else None,
            stacks=True,
        ),
        sandbox,
    )


def _no_verdict(result: ExecResult, limit_s: float) -> str | None:
    """Return why the command did not run the tests, or None if it did.

    A command that was stopped before `limit_s` was stopped by the time limit of its node.
    """
    if result.out_of_memory or _hit_time_limit(result, limit_s):
        return None
    if result.launch_error or result.timed_out or result.out_of_disk:
        return command_result(result, ("the test command",)).error
    if result.exit_code in _SHELL_NOT_RUNNABLE:
        return f"a program is missing or not executable (exit code {result.exit_code})"
    text = result.text
    no_pytest_tests = result.exit_code == _PYTEST_NONE and "no tests ran in" in text
    no_tap_tests = result.ok and _TAP_NONE.search(text) and not text_cases(text)
    if _NO_TESTS.search(text) or no_pytest_tests or no_tap_tests:
        return "no tests were found"
    return None if result.ok else _pytest_refusal(result.exit_code, text)


def _pytest_refusal(exit_code: int, text: str) -> str | None:
    """Return why pytest did not start, or None if it did or if a change of code can fix it."""
    if _PLUGIN_MISSING.search(text):
        return "the project names a pytest plugin that is not in the image"
    if exit_code != _PYTEST_USAGE or _CONFTEST_BROKEN in text:
        return None
    if "error: unrecognized arguments:" in text:
        return "the project uses an option of a pytest plugin that is not in the image"
    error = _PYTEST_ERROR.search(text)
    return f"pytest did not start: {error[1]}" if error else None


def _killed(result: ExecResult, limit_s: float, sandbox: Sandbox) -> str | None:
    """Return the limit that the tests exceeded, or None."""
    if result.stuck:
        return f"the tests printed nothing for {STUCK_AFTER_S:g} s and kept a processor busy"
    if _hit_time_limit(result, limit_s):
        return f"the tests did not end within {limit_s:g} s"
    if not result.out_of_memory:
        return None
    limit = sandbox.exec(Command(argv=_MEMORY_LIMIT), discard_output).stdout.strip()
    shown = f" (limit {int(limit) / 2**30:.3g} GiB)" if limit.isdigit() else ""
    return f"the tests ran out of memory{shown}"


def _hit_time_limit(result: ExecResult, limit_s: float) -> bool:
    return result.stuck or (result.timed_out and result.duration_ms >= round(limit_s * 1000))


def no_tests(project: Project) -> str:
    """Return the error for a project without a known way to test it."""
    return (
        f"no way to test this project was found ({project.why}). Harness knows the files of "
        f"{', '.join(row.name for row in ecosystems())}; --set test=COMMAND names the tests, "
        "--set project=PATH the project's folder"
    )
