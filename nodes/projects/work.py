"""Node functions for any project: find its tests, install it, run its tests."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from contracts.run import NodeResult, RunContext
from contracts.sandbox import Command, ExecResult, Sandbox
from nodes.changes import changed_since
from nodes.commands import command_result
from nodes.node_sandbox import discard_output
from nodes.projects.find import PROJECT_FACT, find_project, has_network
from nodes.projects.leftovers import exec_without_traces
from nodes.projects.manifests import is_compiled, package_indexes
from nodes.projects.missing import (
    missing_installer,
    missing_message,
    missing_programs,
    missing_test_runner,
)
from nodes.projects.missing_libraries import REACH_INDEX, unreached_index
from nodes.projects.obstacles import install_obstacle, version_obstacle
from nodes.projects.testing import exec_tests, no_tests
from nodes.projects.types import Project, sandbox_files
from nodes.projects.verdicts import judge_again
from nodes.projects.versions import older_tools

INSTALL_TIMEOUT_S = 1800.0

_LIVE_LINES = {"npm_config_loglevel": "info"}
"""npm and pnpm tell nothing until the end unless they are asked to."""

_NO_RETRIES = {"npm_config_fetch_retries": "0", "PIP_RETRIES": "0"}
"""For an index that cannot be reached: npm would try for more than a minute."""

_HINT = "--set install= skips it, --set install=COMMAND replaces it"
_OFFLINE_HINT = f"sandboxes have no network by default; {_HINT}"
_NOT_INSTALLED = "could not be installed; the tests run from the source tree"
_LIST_FILES = ("git", "ls-files", "-z")
_DEPENDENCY_FILE = re.compile(
    r"pyproject\.toml|setup\.(py|cfg)|[\w.-]*requirements[\w.-]*\.(txt|in)|Pipfile(\.lock)?"
    r"|poetry\.lock|uv\.lock|pdm\.lock|pylock\.toml|tox\.ini|noxfile\.py|environment\.ya?ml"
    r"|package(-lock)?\.json|yarn\.lock|pnpm-lock\.yaml|bun\.lockb?|go\.(mod|sum)"
    r"|Cargo\.(toml|lock)|Gemfile(\.lock)?|composer\.(json|lock)|pom\.xml|build\.gradle(\.kts)?"
)
_VENDORED = re.compile(r"(^|/)(node_modules|vendor|third_party|testdata|fixtures)/")


def require_tests(ctx: RunContext, sandbox: Sandbox) -> NodeResult:
    """Preflight: the project has tests, and the sandbox can run them (after the install)."""
    return _find_tests(ctx, sandbox, NodeResult.failure)


def look_for_tests(ctx: RunContext, sandbox: Sandbox) -> NodeResult:
    """Preflight: like `require_tests`, but skipped if the project has no tests."""
    return _find_tests(ctx, sandbox, NodeResult.skipped)


def _find_tests(
    ctx: RunContext, sandbox: Sandbox, without_tests: Callable[[str], NodeResult]
) -> NodeResult:
    project = find_project(ctx, sandbox)
    if project.test is None:
        return without_tests(no_tests(project))
    older = _older_tools(project, sandbox)
    shown = "\n".join(filter(None, (str(project), unreached_index(project, ctx), *older.values())))
    found = replace(NodeResult.success(shown), facts={PROJECT_FACT: project.fact})
    return missing_installer(project, ctx, sandbox) or found


def find_dependency_files(_: RunContext, sandbox: Sandbox) -> NodeResult:
    """Preflight: return the tracked files that declare dependencies, one a line."""
    result = sandbox.exec(Command(argv=_LIST_FILES, output_limit=4 * 1024 * 1024), discard_output)
    if not result.ok:
        return command_result(result, _LIST_FILES)
    names = result.stdout.decode("utf-8", "replace").split("\0")
    found = [
        name
        for name in names
        if _DEPENDENCY_FILE.fullmatch(name.rpartition("/")[2]) and not _VENDORED.search(name)
    ]
    if not found:
        return NodeResult.failure(
            "no dependency files found: looked for pyproject.toml, setup.py, requirements*.txt, "
            "package.json, go.mod, Cargo.toml, Gemfile, pom.xml and their lock files"
        )
    return NodeResult.success("\n".join(found))


def install_project(ctx: RunContext, sandbox: Sandbox) -> NodeResult:
    """Install the project; skipped if there is nothing to install.

    A failed install is a failure unless the tests can run without it. A missing program, such as a
    compiler, is always a failure. After an install that must succeed, the test runner must exist.
    """
    return _install(ctx, sandbox, required=False)


def require_install(ctx: RunContext, sandbox: Sandbox) -> NodeResult:
    """Install the project; every failed install is a failure. Skipped if nothing to install."""
    return _install(ctx, sandbox, required=True)


def _install(ctx: RunContext, sandbox: Sandbox, *, required: bool) -> NodeResult:
    project = find_project(ctx, sandbox)
    if project.install is None:
        return NodeResult.skipped("nothing to install")
    if ctx.installs is not None and (kept := ctx.installs.kept(project.install)):
        return NodeResult.success(kept)
    with _network(ctx, sandbox) as env:
        if env is None:  # an agent has worked: what it changed is installed without a network
            ctx = replace(ctx, installs=None)
            project = find_project(ctx, sandbox)
        return _run_install(project, ctx, sandbox, env=env or {}, required=required)


@contextmanager
def _network(ctx: RunContext, sandbox: Sandbox) -> Iterator[Mapping[str, str] | None]:
    """Open the package indexes of the project's ecosystems; gives the variables for clients."""
    if ctx.installs is None:
        yield {}
        return
    with ctx.installs.network(package_indexes(sandbox_files(sandbox).names)) as env:
        yield env


def _run_install(
    project: Project, ctx: RunContext, sandbox: Sandbox, *, env: Mapping[str, str], required: bool
) -> NodeResult:
    if project.install is None:
        return NodeResult.skipped("nothing to install")
    sandbox.upload_files({path: text.encode() for path, text in project.install_files.items()})
    patience = _NO_RETRIES if unreached_index(project, ctx) else {}
    result = exec_without_traces(
        Command(
            argv=project.install,
            cwd=project.cwd,
            env={**project.env, **_LIVE_LINES, **patience, **env},
            timeout_s=INSTALL_TIMEOUT_S,
        ),
        sandbox,
    )
    if result.ok:
        lacking = None if project.install_optional else missing_test_runner(project, ctx, sandbox)
        if lacking is None and ctx.installs is not None:
            ctx.installs.keep(project.install, after=ctx.results.keys())
        return lacking or NodeResult.success(result.text)
    missing = missing_programs(result, sandbox)
    if project.install_optional and not required and not missing:
        return NodeResult.success(f"{_NOT_INSTALLED}\n\n{result.text}")
    older = _older_tools(project, sandbox)
    return _failed_install(result, missing, project, ctx, older)


def _older_tools(project: Project, sandbox: Sandbox) -> Mapping[str, str]:
    files = sandbox_files(sandbox)
    inside = older_tools(files.below(project.folder), sandbox) if project.folder else {}
    return {**older_tools(files, sandbox), **inside}


def _failed_install(
    result: ExecResult,
    missing: tuple[str, ...],
    project: Project,
    ctx: RunContext,
    older: Mapping[str, str],
) -> NodeResult:
    failed = command_result(result, project.install or ())
    lacks, error = missing, failed.error
    hint = _HINT if has_network(ctx) or ctx.installs is not None else _OFFLINE_HINT
    if missing:
        error = f"{error}: {missing_message(missing, project)}"
    elif found := version_obstacle(result.text):
        lacks, error = (found.lacks,), found.message
    elif reason := unreached_index(project, ctx):
        lacks, error = (f"index of {project.kind}",), f"{error}: {reason}. {REACH_INDEX}"
    elif found := install_obstacle(result.text):
        lacks, error = (found.lacks,), found.message
    elif older:
        lacks, error = tuple(older), f"{error}. Perhaps because {'; '.join(older.values())}"
    return replace(NodeResult.failure(f"{error} ({hint})", failed.output), lacks=lacks)


def rebuild(base: str, ctx: RunContext, sandbox: Sandbox) -> None:
    """Install again if files that the install compiled differ from the commit `base`.

    Without a network, and with what the sandbox has: if that fails, the tests tell.
    """
    ctx = replace(ctx, installs=None)
    project = find_project(ctx, sandbox)
    changed = changed_since(base, sandbox)
    if project.install_optional and any(is_compiled(project.kind, path) for path in changed):
        _run_install(project, ctx, sandbox, env={}, required=False)


def run_tests(ctx: RunContext, sandbox: Sandbox) -> NodeResult:
    """Run the project's tests; flaky ones may fail. If no test ran, the node fails."""
    return judge_again(exec_tests(ctx, sandbox), None, ctx, sandbox)
