"""Git commands inside a sandbox, on a repository that belongs to the agent.

The options keep its hooks from running, and its settings from changing the bytes of files.
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
    """Run git in the workspace.

    Raises:
        GitFailed: git failed; the message ends with its error.
        SandboxLost: the sandbox is gone.
    """
    ran = try_git_inside(sandbox, *args, stdin=stdin, output_limit=output_limit)
    return check_result(ran, f"git {args[0]}")


def try_git_inside(
    sandbox: Sandbox, *args: str, stdin: bytes = b"", output_limit: int = DEFAULT_OUTPUT_LIMIT
) -> ExecResult:
    """Run git in the workspace; a failure is a result."""
    argv = (*_INSIDE, *args)
    return sandbox.exec(
        Command(argv=argv, stdin=stdin, timeout_s=TIMEOUT_S, output_limit=output_limit)
    )


def remove_inside(sandbox: Sandbox, *paths: str) -> ExecResult:
    """Remove files of the workspace, if they exist."""
    return sandbox.exec(Command(argv=("rm", "-f", *paths), timeout_s=TIMEOUT_S))


def check_result(result: ExecResult, what: str) -> ExecResult:
    """Return the result if the command succeeded.

    Raises:
        GitFailed: it failed.
    """
    if not result.ok:
        why = result.launch_error or error_text(result.stderr)
        raise GitFailed(
            f"{what} in the sandbox {'timed out' if result.timed_out else 'failed'}: {why}"
        )
    return result
