"""Work in a sandbox as an agent does it, and what comes out."""

from contracts.sandbox import Command, Sandbox
from sandbox.repos import Base
from sandbox.workspace import Work, take_out

BRANCH = "harness/r-1/fix-tests"


def inside(sandbox: Sandbox, line: str) -> str:
    """Run a shell line in the workspace, as an agent would; it must succeed."""
    result = sandbox.exec(Command(argv=("sh", "-c", line)))
    assert result.ok, result.text
    return result.stdout.decode().strip()


def taken(sandbox: Sandbox, base: Base) -> Work:
    """The work, of which there is some."""
    work = take_out(sandbox, base, BRANCH, message="Leftovers")
    assert work is not None
    return work
