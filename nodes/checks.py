"""Node functions for preflight nodes, and conditions to skip a node."""

import json
import shlex
from dataclasses import dataclass, replace

from contracts.run import NodeResult, RunContext
from contracts.sandbox import Command, Sandbox
from nodes.changes import uncommitted_files
from nodes.commands import command_result
from nodes.node_sandbox import discard_output
from nodes.projects.declared import ENVIRONMENT
from nodes.projects.ecosystems import package_of
from nodes.types import NodeFunction, SkipCondition

_PRINT_MISSING = 'for tool; do command -v "$tool" >/dev/null || echo "$tool"; done'


def has_tools(*names: str) -> NodeFunction:
    """Check that the sandbox has these programs. The error lists all that are missing."""
    return _HasTools(names)


@dataclass(frozen=True)
class _HasTools:
    names: tuple[str, ...]

    def __call__(self, _: RunContext, sandbox: Sandbox) -> NodeResult:
        look = _print_missing(self.names)
        result = sandbox.exec(look, discard_output)
        if not result.ok:
            return command_result(result, look.argv)
        if missing := result.text.split():
            error = missing_tools_message(*missing)
            return replace(NodeResult.failure(error), lacks=tuple(missing))
        return NodeResult.success(f"found {', '.join(self.names)}")


def missing_programs_among(sandbox: Sandbox, *names: str) -> tuple[str, ...]:
    """Return the programs that the sandbox lacks; none if the check itself fails."""
    result = sandbox.exec(_print_missing(names), discard_output)
    return tuple(result.text.split()) if result.ok else ()


def missing_tools_message(*names: str) -> str:
    """Return the error for programs that the sandbox lacks, with the packages that have them."""
    named = [f"{name} ({package})" if (package := package_of(name)) else name for name in names]
    packages = " ".join(dict.fromkeys(package_of(name) or name for name in names))
    return (
        f"not in the sandbox: {', '.join(named)}. Debian packages add programs: "
        f"--set packages={shlex.quote(packages)}, or packages = {json.dumps(packages.split())} in "
        f"the repository's {ENVIRONMENT}; see docs/how-to/image.md"
    )


def _print_missing(names: tuple[str, ...]) -> Command:
    return Command(argv=("sh", "-c", _PRINT_MISSING, "sh", *names))


def was_skipped(node: str) -> SkipCondition:
    """Return a condition that is True if an earlier node was skipped."""
    return lambda ctx: ctx.results[node].status == "skipped"


def work_tree_clean(_: RunContext, sandbox: Sandbox) -> NodeResult:
    """Check that the workspace has no uncommitted changes."""
    changed = uncommitted_files(sandbox)
    if changed.status == "failure":
        return changed
    if changed.output:
        return NodeResult.failure("the work tree has uncommitted changes", changed.output)
    return NodeResult.success("the work tree is clean")
