"""Ready preflight checks and conditions."""

from contracts.run import NodeResult, RunContext
from contracts.sandbox import Command, Sandbox
from nodes.changes import uncommitted_files
from nodes.commands import command_result
from nodes.node_sandbox import discard_output
from nodes.types import NodeFunction, SkipCondition

_NAME_MISSING = 'for tool; do command -v "$tool" >/dev/null || echo "$tool"; done'


def has_tools(*names: str) -> NodeFunction:
    """Check that the sandbox has these programs; all missing ones are named at once."""

    def check(_: RunContext, sandbox: Sandbox) -> NodeResult:
        look = _look_for(names)
        result = sandbox.exec(look, discard_output)
        if not result.ok:
            return command_result(result, look.argv)
        if missing := result.text.split():
            return NodeResult.failure(missing_tools_message(*missing))
        return NodeResult.success(f"found {', '.join(names)}")

    return check


def missing_programs_among(sandbox: Sandbox, *names: str) -> tuple[str, ...]:
    """Those of these programs that the sandbox lacks; empty if it cannot be asked."""
    result = sandbox.exec(_look_for(names), discard_output)
    return tuple(result.text.split()) if result.ok else ()


def missing_tools_message(*names: str) -> str:
    """The message for a person when the sandbox lacks programs."""
    return (
        f"not in the sandbox: {', '.join(names)}. Programs come from the sandbox image: "
        "set `sandbox.image` to one that has them, see docs/how-to/image.md"
    )


def _look_for(names: tuple[str, ...]) -> Command:
    return Command(argv=("sh", "-c", _NAME_MISSING, "sh", *names))


def was_skipped(node: str) -> SkipCondition:
    """A condition to skip by: an earlier node was skipped, as one that looks for tests is."""
    return lambda ctx: ctx.results[node].status == "skipped"


def work_tree_clean(_: RunContext, sandbox: Sandbox) -> NodeResult:
    """Check that no file in the workspace was changed, added or removed since the last commit."""
    changed = uncommitted_files(sandbox)
    if changed.status == "failure":
        return changed
    if changed.output:
        return NodeResult.failure("the work tree has uncommitted changes", changed.output)
    return NodeResult.success("the work tree is clean")
