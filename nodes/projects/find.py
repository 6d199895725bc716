"""Find out how the project in the sandbox installs and tests itself."""

from collections.abc import Mapping
from dataclasses import replace

from contracts.run import RunContext
from contracts.sandbox import Sandbox
from nodes.projects.files import ProjectFiles
from nodes.projects.make import make_project
from nodes.projects.node import node_project
from nodes.projects.options import option_argv
from nodes.projects.python import python_project
from nodes.projects.types import Project

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
        python_project(files, sandbox.work_dir, online=is_online(ctx)),
        node_project(files),
        make_project(files),
    )
    kinds = [project for project in found if project is not None] or [_NOTHING]
    chosen = next((project for project in kinds if project.test), None)
    if chosen is None:
        chosen = replace(kinds[0], why="; ".join(project.why for project in kinds))
    return _as_told(chosen, ctx.options)


def is_online(ctx: RunContext) -> bool:
    """Whether the run's commands have a way out of the sandbox."""
    return "HTTPS_PROXY" in ctx.env


def _as_told(project: Project, options: Mapping[str, str]) -> Project:
    if "install" in options:
        install = option_argv(options["install"])
        project = replace(project, install=install, install_optional=False)
    if "test" in options:
        told = f"{project.why}; test was given"
        project = replace(project, test=option_argv(options["test"]), why=told)
    return project
