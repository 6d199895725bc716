"""Find out how the project in the sandbox installs and tests itself."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from contracts.run import RunContext
from contracts.sandbox import Sandbox
from nodes.projects.files import ProjectFiles
from nodes.projects.make import make_project
from nodes.projects.node import node_project
from nodes.projects.options import command_option
from nodes.projects.python import is_clearly_python, python_project
from nodes.projects.types import Project

PROJECT_FACT = "project"
"""Under which a preflight tells later nodes what it found."""

_NOTHING = Project(kind="unknown", why="no pyproject.toml, setup.py, package.json or makefile")


def find_project(ctx: RunContext, sandbox: Sandbox) -> Project:
    """The project in the workspace; the run's options `install` and `test` win outright.

    Where several kinds stand side by side, the first with tests of its own counts: Python,
    then Node, then make; Node first where nothing but names of files speaks for Python. Once a
    preflight has found one, it is tested in that way to the end, whatever agents add; how its
    kind is installed is looked at again.

    Raises:
        OptionInvalid: an option's quotes are not closed.
    """
    files = ProjectFiles(sandbox)
    python = python_project(files, sandbox.work_dir, online=has_network(ctx))
    node, make = node_project(files), make_project(files)
    looked = (python, node, make) if is_clearly_python(files) else (node, python, make)
    kinds = [project for project in looked if project is not None] or [_NOTHING]
    facts = (
        result.facts[PROJECT_FACT]
        for result in ctx.results.values()
        if PROJECT_FACT in result.facts
    )
    found = next(facts, None)
    return _as_told(_first(kinds) if found is None else _as_found(found, kinds), ctx.options)


def _first(kinds: Sequence[Project]) -> Project:
    with_tests = next((project for project in kinds if project.test), None)
    return with_tests or replace(kinds[0], why="; ".join(project.why for project in kinds))


def _as_found(fact: str, kinds: Sequence[Project]) -> Project:
    kind, why, test, install = json.loads(fact)
    now = next((project for project in kinds if project.kind == kind), replace(_NOTHING, kind=kind))
    # What was installed before is not taken for a project that needs no install.
    return replace(
        now,
        why=why,
        test=tuple(test) if test else None,
        install=now.install or (tuple(install) if install else None),
    )


def has_network(ctx: RunContext) -> bool:
    """Whether the run's commands have a way out of the sandbox."""
    return "HTTPS_PROXY" in ctx.env


def _as_told(project: Project, options: Mapping[str, str]) -> Project:
    if "install" in options:
        install = command_option(options["install"])
        project = replace(project, install=install, install_optional=False)
    if "test" in options:
        told = f"{project.why}; test was given"
        project = replace(project, test=command_option(options["test"]), why=told)
    return project
