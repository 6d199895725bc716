"""Programs that an install or a test run needs and the sandbox lacks.

`make`, `npm`, `pip` and others have their own exit code for a missing program, and only their
output names it. A name counts if output and exit code agree and the sandbox has no such program.
"""

import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from contracts.run import NodeResult, RunContext
from contracts.sandbox import Command, ExecResult, Sandbox
from nodes.checks import has_tools, missing_programs_among, missing_tools_message
from nodes.node_sandbox import discard_output
from nodes.projects.ecosystems import package_of
from nodes.projects.types import Project
from nodes.text import strip_control_characters

_MODULES = ("pytest", "tox", "nox")
"""Run as `python -m NAME`. If one is missing, Python exits with the code of failed tests."""

_NAME = r"(/?[\w+][\w.+/-]*)"
_QUOTE = "[\"'`\u2018\u2019]?"
_NOT_FOUND = 127
_SAYS_127 = (
    r"^\S*make(\[\d+\])?: \*\*\* \[.*\] Error 127$"
    r"|^npm (ERR!|error) (code|errno) 127$"
)


class _Sign(NamedTuple):
    """A line that names a missing program, and the evidence that confirms it.

    `agrees` is another line of the same output; empty means that `line` is enough. None means that
    the exit code is 127, or that make or npm report 127 for a command. `program` is the program's
    name, made of the groups of `line`.
    """

    line: str
    agrees: str | None = None
    program: str = r"\1"


_CMAKE_FAILED = r"^-- Configuring incomplete, errors occurred!"
_NPM_ENOENT = r"^npm (?:ERR!|error) code ENOENT$"
_TOX_FAILED = r"^  \S+: FAIL"
_SIGNS = (
    _Sign(rf"^\S*make(?:\[\d+\])?: {_NAME}: (?:No such file or directory|Command not found)$"),
    _Sign(rf"^\S+: (?:(?:line )?\d+: )?(?:exec: )?{_NAME}: (?:command )?not found$"),
    _Sign(rf"^\S*env: (?:can't execute )?{_QUOTE}{_NAME}{_QUOTE}: No such file or directory$"),
    _Sign(rf"^npm (?:ERR!|error) syscall spawn {_NAME}$", _NPM_ENOENT),
    _Sign(
        rf"^ *error: command '{_NAME}' failed: No such file or directory$",
        r"^ *error: (subprocess-exited-with-error"
        r"|command '.*' failed: No such file or directory\Z)",
    ),
    _Sign(r"No CMAKE_C_COMPILER could be found\.", _CMAKE_FAILED, "cc"),
    _Sign(r"No CMAKE_CXX_COMPILER could be found\.", _CMAKE_FAILED, "c++"),
    _Sign(rf"specified in the environment variable \w+:\s+{_NAME}\.\s", _CMAKE_FAILED),
    _Sign(r'build program corresponding to "Unix Makefiles"', _CMAKE_FAILED, "make"),
    _Sign(r'build program corresponding to "Ninja"', _CMAKE_FAILED, "ninja"),
    _Sign(r"^configure: error: no acceptable C compiler found in \$PATH$", "", "cc"),
    _Sign(rf"^error: linker `{_NAME}` not found$", "^error: could not compile "),
    _Sign(rf'^cgo: C compiler "{_NAME}" not found: exec: .* not found in \$PATH$', ""),
    _Sign(rf"^\S+: Exception running subprocess \[Errno 2\] [\w ]+: '{_NAME}'$", _TOX_FAILED),
    _Sign(
        r"^\S+: failed with could not find python interpreter [\w ()]{1,60}:? py(\d)(\d+)$",
        _TOX_FAILED,
        r"python\1.\2",
    ),
)


def missing_test_runner(project: Project, ctx: RunContext, sandbox: Sandbox) -> NodeResult | None:
    """Return a failure if the sandbox lacks the program that runs the tests, else None."""
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
    error = f"the sandbox has no {module}: use an image that has it, or --set test=COMMAND"
    return None if found.ok else replace(NodeResult.failure(error, found.text), lacks=(module,))


def missing_installer(project: Project, ctx: RunContext, sandbox: Sandbox) -> NodeResult | None:
    """Return a failure if the sandbox lacks what the run needs before the install, else None.

    An install that must succeed may bring the test runner, so only the installer is needed.
    """
    if project.install is None or project.install_optional:
        return missing_test_runner(project, ctx, sandbox)
    return _missing(project.install[0], ctx, sandbox)


def _missing(program: str, ctx: RunContext, sandbox: Sandbox) -> NodeResult | None:
    found = has_tools(program)(ctx, sandbox)
    return found if found.status == "failure" else None


def missing_programs(result: ExecResult, sandbox: Sandbox) -> tuple[str, ...]:
    """Return the programs whose absence made a command fail."""
    if result.ok or result.timed_out or result.out_of_memory:
        return ()
    named = dict.fromkeys(_named_programs(result))
    return missing_programs_among(sandbox, *named) if named else ()


def missing_message(missing: tuple[str, ...], project: Project) -> str:
    """Return the error for programs that a project's command lacks."""
    if project.kind != "node":
        return missing_tools_message(*missing)
    install = repr(shlex.join(project.install)) if project.install else "which this project lacks"
    return (
        f"neither in node_modules/.bin nor in the sandbox: {', '.join(missing)}. A package comes "
        f"with the install ({install}), any other program with a Debian package: "
        f"--set packages={shlex.quote(' '.join(package_of(one) or one for one in missing))}"
    )


def _named_programs(result: ExecResult) -> Iterator[str]:
    text = strip_control_characters(result.text).strip()
    says_127 = result.exit_code == _NOT_FOUND or re.search(_SAYS_127, text, re.MULTILINE)
    for line, agrees, program in _SIGNS:
        if says_127 if agrees is None else re.search(agrees, text, re.MULTILINE):
            for found in re.finditer(line, text, re.MULTILINE):
                name = found.expand(program)
                if "/" not in name or name.startswith("/"):  # else it is a file of the project
                    yield name
