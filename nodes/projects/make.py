"""Projects whose makefile says how they are tested."""

import re

from nodes.projects.files import ProjectFiles
from nodes.projects.types import Project

_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
_TARGET = re.compile(r"^(test|tests|check)[ \t]*:(?!=)", re.MULTILINE)


def make_project(files: ProjectFiles) -> Project | None:
    """A project with a makefile; its test target is `test`, `tests` or `check`."""
    makefile = next((name for name in _MAKEFILES if name in files.names), None)
    if makefile is None:
        return None
    targets = {match[1] for match in _TARGET.finditer(files.text(makefile))}
    target = next((name for name in ("test", "tests", "check") if name in targets), None)
    if target is None:
        return Project(kind="make", why=f"{makefile} has no target test, tests or check")
    return Project(kind="make", why=f"{makefile} has a target {target}", test=("make", target))
