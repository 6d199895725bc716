"""Find out how the project in the sandbox installs and tests itself."""

from collections.abc import Mapping
from dataclasses import replace

from contracts.run import RunContext
from contracts.sandbox import Sandbox
from nodes.commands import line_argv
from nodes.projects.files import ProjectFiles
from nodes.projects.make import make_project
from nodes.projects.node import node_project
from nodes.projects.python import python_project
from nodes.projects.types import Project

OPTIONS = {
    "install": "the command that installs the project; empty: install nothing",
    "test": "the command that tests the project; empty: there are no tests",
}
"""What `--set` may give to every blueprint that installs and tests."""

_NOTHING = Project(kind="unknown", why="no pyproject.toml, setup.py, package.json or makefile")


def find_project(ctx: RunContext, sandbox: Sandbox) -> Project:
    """The project in the workspace; the run's options `install` and `test` win outright.

    Where several kinds stand side by side, the first with tests of its own counts: Python,
    then Node, then make.

    Raises:
        OptionInvalid: an option's quotes are not closed.
    """
    files = ProjectFiles(sandbox)
    found = (
        python_project(files, sandbox.work_dir, online="HTTPS_PROXY" in ctx.env),
        node_project(files),
        make_project(files),
    )
    kinds = [project for project in found if project is not None] or [_NOTHING]
    chosen = next((project for project in kinds if project.test), None)
    if chosen is None:
        chosen = replace(kinds[0], why="; ".join(project.why for project in kinds))
    return _as_told(chosen, ctx.options)


def _as_told(project: Project, options: Mapping[str, str]) -> Project:
    if "install" in options:
        install = _argv(options["install"])
        project = replace(project, install=install, install_optional=False)
    if "test" in options:
        told = f"{project.why}; test was given"
        project = replace(project, test=_argv(options["test"]), why=told)
    return project


def _argv(line: str) -> tuple[str, ...] | None:
    return line_argv(line) if line.strip() else None
