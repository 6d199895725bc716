"""Ready work on what a run has changed, by git in the sandbox."""

import textwrap
from functools import partial

from contracts.false_changes import falsely_modified
from contracts.run import NodeResult, RunContext
from contracts.sandbox import DEFAULT_AUTHOR, Command, ExecResult, Sandbox
from nodes.commands import command_result
from nodes.node_sandbox import discard_output
from nodes.types import NodeFunction

_SUBJECT_WIDTH = 72
_STATUS = ("status", "--porcelain", "-z", "--no-renames", "--untracked-files=normal")
_IDENTITY = ("-c", f"user.name={DEFAULT_AUTHOR.name}", "-c", f"user.email={DEFAULT_AUTHOR.email}")


def current_commit(_: RunContext, sandbox: Sandbox) -> NodeResult:
    """The commit that is checked out; its hash is the output."""
    return _result(sandbox, "rev-parse", "--verify", "HEAD")


def commit_since(base: str) -> NodeFunction:
    """Work that commits all changes, with a message made from the intent.

    `base` names the node whose output is the commit the run started from. What the agent
    committed itself counts; no change at all is a failure.
    """

    def work(ctx: RunContext, sandbox: Sandbox) -> NodeResult:
        same = falsely_modified(partial(_git_quietly, sandbox))
        staged = _result(sandbox, "add", "--all")
        if staged.status == "failure":
            return staged
        if same:
            _git_quietly(sandbox, ("update-index", "-z", "--index-info"), b"".join(same.values()))
        if not _git(sandbox, "diff", "--cached", "--quiet").ok:
            return _commit(sandbox, commit_message(ctx))
        if current_commit(ctx, sandbox).output == ctx.results[base].output:
            return NodeResult.failure("nothing was changed: there is nothing to commit")
        return NodeResult.success("everything was committed already")

    return work


def unchanged_since(base: str) -> NodeFunction:
    """Work that checks that no file and no commit was added since the node `base` looked."""

    def work(ctx: RunContext, sandbox: Sandbox) -> NodeResult:
        if current_commit(ctx, sandbox).output != ctx.results[base].output:
            return NodeResult.failure("commits were added; this run may only read")
        changed = uncommitted_files(sandbox)
        if changed.status == "success" and changed.output:
            return NodeResult.failure("files were changed; this run may only read", changed.output)
        return changed

    return work


def uncommitted_files(sandbox: Sandbox) -> NodeResult:
    """The files that were changed, added or removed since the last commit, each on a line as
    `git status` has it; a failure where git cannot tell."""
    status = _git_quietly(sandbox, _STATUS)
    if not status.ok:
        return command_result(status, ("git", *_STATUS))
    entries = [entry for entry in status.stdout.split(b"\0") if entry]
    same = falsely_modified(partial(_git_quietly, sandbox)) if entries else {}
    changed = [entry for entry in entries if entry[:3] != b" M " or entry[3:] not in same]
    return NodeResult.success(b"\n".join(changed).decode(errors="replace"))


def head_hash(sandbox: Sandbox) -> str:
    """The hash of the commit that is checked out; empty where there is none."""
    found = _git_quietly(sandbox, ("rev-parse", "--verify", "HEAD"))
    return found.text.strip() if found.ok else ""


def unchanged_from(commit: str, sandbox: Sandbox) -> bool:
    """Whether all that git would keep is as in this commit; False where nobody can tell."""
    changed = uncommitted_files(sandbox)
    if changed.status == "failure" or changed.output:
        return False
    return _git_quietly(sandbox, ("diff", "--quiet", "--no-ext-diff", commit, "HEAD")).ok


def commit_message(ctx: RunContext) -> str:
    """A subject of at most 72 characters, the rest of the intent, and the run's id."""
    first, _, rest = (ctx.intent.strip() or "Changes by Harness").partition("\n")
    subject = textwrap.shorten(first, _SUBJECT_WIDTH, placeholder=" …")
    whole = "" if subject == first else first
    body = "\n\n".join(part for part in (whole, rest.strip()) if part)
    return "\n\n".join(part for part in (subject, body, f"Harness-Run: {ctx.run_id}") if part)


def _commit(sandbox: Sandbox, message: str) -> NodeResult:
    identity = () if _git(sandbox, "config", "user.email").ok else _IDENTITY
    commit = ("commit", "--quiet", "--no-verify", "--file=-")
    made = _git(sandbox, *identity, *commit, stdin=message.encode(errors="replace"))
    if not made.ok:
        return command_result(made, ("git", *commit))
    return _result(sandbox, "show", "--stat", "--format=%h %s", "HEAD")


def _git_quietly(sandbox: Sandbox, args: tuple[str, ...], stdin: bytes = b"") -> ExecResult:
    """What git says; whoever follows the run is not shown it."""
    return sandbox.exec(Command(argv=("git", *args), stdin=stdin), discard_output)


def _result(sandbox: Sandbox, *args: str) -> NodeResult:
    return command_result(_git(sandbox, *args), ("git", *args))


def _git(sandbox: Sandbox, *args: str, stdin: bytes = b"") -> ExecResult:
    return sandbox.exec(Command(argv=("git", *args), stdin=stdin))
