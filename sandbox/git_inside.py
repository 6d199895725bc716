"""Git inside a sandbox, on a repository that belongs to the agent.

None of its hooks run, and none of its settings says what bytes a file has.
"""

from contracts.errors import GitFailed
from contracts.sandbox import DEFAULT_AUTHOR, DEFAULT_OUTPUT_LIMIT, Command, ExecResult, Sandbox
from sandbox.git import TIMEOUT_S, error_text

_INSIDE = (
    "git", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "gc.auto=0",
    "-c", "core.sparseCheckout=false", "-c", "core.untrackedCache=false",
    "-c", "core.fileMode=true", "-c", "core.symlinks=true", "-c", "core.ignoreCase=false",
    "-c", "core.trustctime=true", "-c", "core.checkStat=default", "-c", "core.ignoreStat=false",
    "-c", "core.attributesFile=/dev/null", "-c", "core.autocrlf=false", "-c", "core.eol=lf",
    "-c", "commit.gpgSign=false",
    "-c", f"user.name={DEFAULT_AUTHOR.name}", "-c", f"user.email={DEFAULT_AUTHOR.email}",
    "--git-dir=.git", "--work-tree=.",
)  # fmt: skip


def git_inside(
    sandbox: Sandbox, *args: str, stdin: bytes = b"", output_limit: int = DEFAULT_OUTPUT_LIMIT
) -> ExecResult:
    """What git did in the workspace.

    Raises:
        GitFailed: it failed; the message holds its last words.
        SandboxLost: the sandbox is gone.
    """
    ran = try_git_inside(sandbox, *args, stdin=stdin, output_limit=output_limit)
    return check_result(ran, f"git {args[0]}")


def try_git_inside(
    sandbox: Sandbox, *args: str, stdin: bytes = b"", output_limit: int = DEFAULT_OUTPUT_LIMIT
) -> ExecResult:
    """The same, whether it failed or not."""
    argv = (*_INSIDE, *args)
    return sandbox.exec(
        Command(argv=argv, stdin=stdin, timeout_s=TIMEOUT_S, output_limit=output_limit)
    )


def remove_inside(sandbox: Sandbox, *paths: str) -> ExecResult:
    """Remove files of the workspace, whether they are there or not."""
    return sandbox.exec(Command(argv=("rm", "-f", *paths), timeout_s=TIMEOUT_S))


def check_result(result: ExecResult, what: str) -> ExecResult:
    """The same result.

    Raises:
        GitFailed: it is a failure.
    """
    if not result.ok:
        why = result.launch_error or error_text(result.stderr)
        raise GitFailed(
            f"{what} in the sandbox {'timed out' if result.timed_out else 'failed'}: {why}"
        )
    return result
