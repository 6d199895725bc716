"""Ready work on whatever project the sandbox holds: find its tests, install it, run them."""

import shlex
from dataclasses import replace
from typing import NamedTuple

from contracts.run import NodeResult, RunContext
from contracts.sandbox import Command, ExecResult, Sandbox
from nodes.commands import command_result
from nodes.node_sandbox import discard_output
from nodes.projects.find import PROJECT_FACT, find_project, has_network
from nodes.projects.missing import missing_programs
from nodes.projects.options import time_limit_s
from nodes.projects.runner import missing_installer, missing_test_runner
from nodes.projects.types import Project
from nodes.projects.verdict import hit_time_limit, no_verdict_reason

INSTALL_TIMEOUT_S = 1800.0
"""Seconds that one install may take."""

_SAY = "--set install= skips it, --set install=… says how"
_OFFLINE = f"sandboxes have no network by default; {_SAY}"
_NOT_INSTALLED = "could not be installed; the tests run from the source tree"
_MEMORY_LIMIT = (
    "cat", "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes",
)  # fmt: skip
"""Where cgroups of version 2 have it, and where those of version 1 do: one of them is missing."""


def require_tests(ctx: RunContext, sandbox: Sandbox) -> NodeResult:
    """Preflight: the project has a way to test itself, and the sandbox can run it.

    What the install may bring need not be there yet.
    """
    project = find_project(ctx, sandbox)
    return _runnable(project, ctx, sandbox) if project.test else NodeResult.failure(_none(project))


def look_for_tests(ctx: RunContext, sandbox: Sandbox) -> NodeResult:
    """Preflight: as `require_tests`, but skipped when the project has no tests."""
    project = find_project(ctx, sandbox)
    return _runnable(project, ctx, sandbox) if project.test else NodeResult.skipped(_none(project))


def install_project(ctx: RunContext, sandbox: Sandbox) -> NodeResult:
    """Install the project; skipped when there is nothing to install.

    It may fail where the tests can run without, unless a program such as a compiler is missing.
    After one that must work, what runs the tests must be there.
    """
    return _install(ctx, sandbox, must=False)


def require_install(ctx: RunContext, sandbox: Sandbox) -> NodeResult:
    """As `install_project`, but an install that fails is a failure whatever can run without."""
    return _install(ctx, sandbox, must=True)


def _install(ctx: RunContext, sandbox: Sandbox, *, must: bool) -> NodeResult:
    project = find_project(ctx, sandbox)
    if project.install is None:
        return NodeResult.skipped("nothing to install")
    result = sandbox.exec(
        Command(argv=project.install, env=project.env, timeout_s=INSTALL_TIMEOUT_S)
    )
    if result.ok:
        lacking = None if project.install_optional else missing_test_runner(project, ctx, sandbox)
        return lacking or NodeResult.success(result.text)
    missing = missing_programs(result, project, sandbox)
    if project.install_optional and not must and missing is None:
        return NodeResult.success(f"{_NOT_INSTALLED}\n\n{result.text}")
    failed = command_result(result, project.install)
    if missing is not None:
        return NodeResult.failure(f"{failed.error}: {missing} ({_SAY})", failed.output)
    hint = _SAY if has_network(ctx) else _OFFLINE
    return NodeResult.failure(f"{failed.error} ({hint})", failed.output)


def run_tests(ctx: RunContext, sandbox: Sandbox) -> NodeResult:
    """Run the project's tests; that none ran is a failure too."""
    return exec_tests(ctx, sandbox).result


class ProjectTestResult(NamedTuple):
    """How a test command ended, and whether that says anything about the tests."""

    result: NodeResult
    verdict: bool


def exec_tests(ctx: RunContext, sandbox: Sandbox) -> ProjectTestResult:
    """Run the project's tests; no verdict when the command could not really run them.

    Tests that hang, crash or run out of memory fail.
    """
    project = find_project(ctx, sandbox)
    if project.test is None:
        return ProjectTestResult(NodeResult.failure(_none(project)), verdict=False)
    limit_s = time_limit_s(ctx.options)
    result = sandbox.exec(Command(argv=project.test, env=project.env, timeout_s=limit_s))
    if reason := missing_programs(result, project, sandbox) or no_verdict_reason(result, limit_s):
        told = f"the tests could not be run: {reason}"
        return ProjectTestResult(NodeResult.failure(told, result.text), verdict=False)
    if error := _stopped(result, limit_s, sandbox):
        told = f"{error}: {shlex.join(project.test)!r} was killed"
        return ProjectTestResult(NodeResult.failure(told, result.text), verdict=True)
    return ProjectTestResult(command_result(result, project.test), verdict=True)


def _stopped(result: ExecResult, limit_s: float, sandbox: Sandbox) -> str | None:
    """Which limit the tests went over; None if they ended by themselves."""
    if hit_time_limit(result, limit_s):
        return f"the tests did not end within {limit_s:g} s"
    return f"the tests ran out of memory{_limit(sandbox)}" if result.out_of_memory else None


def _limit(sandbox: Sandbox) -> str:
    told = sandbox.exec(Command(argv=_MEMORY_LIMIT), discard_output).stdout.strip()
    return f" (limit {int(told) / 2**30:.3g} GiB)" if told.isdigit() else ""


def _runnable(project: Project, ctx: RunContext, sandbox: Sandbox) -> NodeResult:
    found = replace(NodeResult.success(str(project)), facts={PROJECT_FACT: project.fact})
    return missing_installer(project, ctx, sandbox) or found


def _none(project: Project) -> str:
    return (
        f"no way to test this project was found ({project.why}). Looked for pytest and unittest "
        "in Python files, a test script in package.json and a test target in a makefile; "
        "say it with --set test=…"
    )
