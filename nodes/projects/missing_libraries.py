"""Libraries that tests need and the sandbox lacks because the package index cannot be reached."""

import re
from pathlib import PurePosixPath

from contracts.run import RunContext
from contracts.sandbox import ExecResult, Sandbox
from nodes.projects.cases import Cases
from nodes.projects.find import has_network
from nodes.projects.types import Project, sandbox_files

REACH_INDEX = "Let this machine reach it, or configure its own client for a mirror that it reaches"
_NO_LIBRARY = re.compile(r"No module named ['\"]([\w.]+)|cannot load such file -- ([\w./-]+)")


def unreached_index(project: Project, ctx: RunContext) -> str:
    """Return a line if the project's package index cannot be reached, else ""."""
    if not project.unreached or has_network(ctx) or ctx.installs is None:
        return ""
    reason = ctx.installs.unreachable(project.unreached)
    return f"the package index of {project.unreached} cannot be reached: {reason}"


def missing_libraries(
    result: ExecResult, cases: Cases, project: Project, ctx: RunContext, sandbox: Sandbox
) -> str:
    """Return why no test tells anything: each failure is of a library that was not fetched."""
    unreached = "" if result.ok else unreached_index(project, ctx)
    if not unreached:
        return ""
    failures = [case.message for case in cases.values() if case.status == "failed"]
    names = [_library(text) for text in failures or [result.text]]
    own = {
        PurePosixPath(part).stem for path in sandbox_files(sandbox).own for part in path.split("/")
    }
    if not all(name and name not in own for name in names):
        return ""
    return f"the sandbox lacks {', '.join(sorted(set(names)))}; {unreached}. {REACH_INDEX}"


def _library(text: str) -> str:
    found = _NO_LIBRARY.search(text)
    name = next(filter(None, found.groups()), "") if found else ""
    return re.split(r"[./]", name)[0]
