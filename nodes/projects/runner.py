"""Whether the sandbox has the program that runs a project's tests."""

from contracts.run import NodeResult, RunContext
from contracts.sandbox import Command, Sandbox
from nodes.checks import has_tools
from nodes.node_sandbox import discard_output
from nodes.projects.types import Project

_MODULES = ("pytest", "tox", "nox")
"""Run as `python -m NAME`; where it is missing, Python ends as tests that fail do."""


def missing_test_runner(project: Project, ctx: RunContext, sandbox: Sandbox) -> NodeResult | None:
    """The failure that names what runs the tests and is not there; None where it is."""
    if project.test is None:
        return None
    program, *rest = project.test
    if missing := _missing(program, ctx, sandbox):
        return missing
    module = next((name for name in _MODULES if rest[:2] == ["-m", name]), None)
    if module is None:
        return None
    look = Command(argv=(program, "-c", f"import {module}"), env=project.env)
    found = sandbox.exec(look, discard_output)
    told = f"the sandbox has no {module}: use an image that has it, or say --set test=…"
    return None if found.ok else NodeResult.failure(told, found.text)


def missing_installer(project: Project, ctx: RunContext, sandbox: Sandbox) -> NodeResult | None:
    """The same before an install: what it may bring is not missed, only what installs."""
    if project.install is None or project.install_optional:
        return missing_test_runner(project, ctx, sandbox)
    return _missing(project.install[0], ctx, sandbox)


def _missing(program: str, ctx: RunContext, sandbox: Sandbox) -> NodeResult | None:
    found = has_tools(program)(ctx, sandbox)
    return found if found.status == "failure" else None
