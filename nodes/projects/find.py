"""Detect how the project in the sandbox is installed and tested."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from contracts.run import RunContext
from contracts.sandbox import Sandbox
from nodes.projects.node import node_project
from nodes.projects.options import command_option
from nodes.projects.python import is_clearly_python, python_project
from nodes.projects.types import Project, ProjectFiles

PROJECT_FACT = "project"
"""The key of `Project.fact` in the facts of a preflight node."""

_UNKNOWN = Project(kind="unknown", why="no pyproject.toml, setup.py, package.json or makefile")
_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
_TARGET = re.compile(r"^(test|tests|check)[ \t]*:(?!=)", re.MULTILINE)


def find_project(ctx: RunContext, sandbox: Sandbox) -> Project:
    """Return the project in the workspace. The options `install` and `test` override everything.

    If there are files of several ecosystems, the first one with tests counts: Python, Node, make;
    but Node comes first if only the names of test files suggest Python. The test command that a
    preflight node found stays the same for the whole run, whatever agents change; the install
    command is detected again.

    Raises:
        OptionInvalid: a quote in an option is not closed.
    """
    files = ProjectFiles(sandbox)
    python = python_project(files, sandbox.work_dir, online=can_fetch(ctx))
    node, make = node_project(files), _make_project(files)
    ordered = (python, node, make) if is_clearly_python(files) else (node, python, make)
    kinds = [project for project in ordered if project is not None] or [_UNKNOWN]
    facts = (r.facts[PROJECT_FACT] for r in ctx.results.values() if PROJECT_FACT in r.facts)
    fact = next(facts, None)
    project = _first_with_tests(kinds) if fact is None else _from_fact(fact, kinds)
    return _with_options(project, ctx.options)


def has_network(ctx: RunContext) -> bool:
    """Return True if the run's commands can reach hosts outside the sandbox."""
    return "HTTPS_PROXY" in ctx.env


def can_fetch(ctx: RunContext) -> bool:
    """Return True if installs of this run can reach package indexes."""
    return has_network(ctx) or (ctx.installs is not None and ctx.installs.online)


def _make_project(files: ProjectFiles) -> Project | None:
    makefile = next((name for name in _MAKEFILES if name in files.names), None)
    if makefile is None:
        return None
    targets = {match[1] for match in _TARGET.finditer(files.text(makefile))}
    target = next((name for name in ("test", "tests", "check") if name in targets), None)
    if target is None:
        return Project(kind="make", why=f"{makefile} has no target test, tests or check")
    return Project(kind="make", why=f"{makefile} has a target {target}", test=("make", target))


def _first_with_tests(kinds: Sequence[Project]) -> Project:
    with_tests = next((project for project in kinds if project.test), None)
    return with_tests or replace(kinds[0], why="; ".join(project.why for project in kinds))


def _from_fact(fact: str, kinds: Sequence[Project]) -> Project:
    kind, why, test, install = json.loads(fact)
    now = next((project for project in kinds if project.kind == kind), replace(_UNKNOWN, kind=kind))
    # An agent that deletes the install files must not turn "install" into "nothing to install".
    return replace(
        now,
        why=why,
        test=tuple(test) if test else None,
        install=now.install or (tuple(install) if install else None),
    )


def _with_options(project: Project, options: Mapping[str, str]) -> Project:
    if "install" in options:
        install = command_option(options["install"])
        project = replace(project, install=install, install_optional=False)
    if "test" in options:
        why = f"{project.why}; overridden by --set test"
        project = replace(project, test=command_option(options["test"]), why=why)
    return project
