"""Programs that a command needed and the sandbox lacks.

`make`, `npm`, `pip` and others end with an exit code of their own when a program they start is
missing, and only their text names it. A name counts when text and exit code agree, and the
sandbox has no program of that name.
"""

import re
import shlex
from collections.abc import Iterator
from typing import NamedTuple

from contracts.sandbox import ExecResult, Sandbox
from nodes.checks import missing_programs_among, missing_tools_message
from nodes.projects.types import Project
from nodes.text import strip_control_characters

_NAME = r"(/?[\w+][\w.+/-]*)"
_QUOTE = "[\"'`\u2018\u2019]?"
_NOT_FOUND = 127
_SAYS_127 = (
    r"^\S*make(\[\d+\])?: \*\*\* \[.*\] Error 127$"
    r"|^npm (ERR!|error) (code|errno) 127$"
)


class _Sign(NamedTuple):
    """A line that names a missing program, and what else must agree.

    `agrees` is another line of the same text; empty: `line` is enough. None: the exit code must
    be 127, or the text must hold a line by which make or npm says that a command's was.
    `program` is the program's name, made of the groups of `line`.
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
        r"^error: (subprocess-exited-with-error|command '.*' failed: No such file or directory\Z)",
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


def missing_programs(result: ExecResult, project: Project, sandbox: Sandbox) -> str | None:
    """Why this command failed, if a program was missing that the sandbox really lacks."""
    if result.ok or result.timed_out or result.out_of_memory:
        return None
    named = dict.fromkeys(_named(result))
    missing = missing_programs_among(sandbox, *named) if named else ()
    if not missing:
        return None
    return (
        _not_installed(missing, project)
        if project.kind == "node"
        else missing_tools_message(*missing)
    )


def _named(result: ExecResult) -> Iterator[str]:
    text = strip_control_characters(result.text).strip()
    says_127 = result.exit_code == _NOT_FOUND or re.search(_SAYS_127, text, re.MULTILINE)
    for line, agrees, program in _SIGNS:
        if says_127 if agrees is None else re.search(agrees, text, re.MULTILINE):
            for found in re.finditer(line, text, re.MULTILINE):
                name = found.expand(program)
                if "/" not in name or name.startswith("/"):  # else it is a file of the project
                    yield name


def _not_installed(missing: tuple[str, ...], project: Project) -> str:
    install = repr(shlex.join(project.install)) if project.install else "which this project lacks"
    return (
        f"neither in node_modules/.bin nor in the sandbox: {', '.join(missing)}. A package comes "
        f"with the install ({install}), any other program with the sandbox image: see "
        "docs/how-to/image.md"
    )
