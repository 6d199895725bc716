"""Node functions that use git in the sandbox: commits, uncommitted files, the diff to review."""

import os
import textwrap
from typing import NamedTuple

from contracts.false_changes import falsely_modified
from contracts.run import NodeResult, RunContext
from contracts.sandbox import DEFAULT_AUTHOR, Command, ExecResult, Sandbox
from nodes.commands import command_result
from nodes.node_sandbox import discard_output
from nodes.outputs.inert import inert_quotes
from nodes.text import truncate_middle
from nodes.types import NodeFunction

MAX_DIFF_CHARS = 48 * 1024
"""Longer diffs are truncated in a prompt; the agent can read the rest with git."""

BASE_OPTION = "base"
REVIEW_OPTIONS = {BASE_OPTION: "review the commits that HEAD adds to this branch, tag or commit"}

_MAIN_BRANCHES = ("origin/HEAD", "origin/main", "origin/master", "main", "master")
_DOCUMENTATION = (".md", ".mdx", ".markdown", ".rst", ".adoc")
_SUBJECT_WIDTH = 72
_STATUS = ("status", "--porcelain", "-z", "--no-renames", "--untracked-files=normal")
_AUTHOR = ("-c", f"user.name={DEFAULT_AUTHOR.name}", "-c", f"user.email={DEFAULT_AUTHOR.email}")


def current_commit(_: RunContext, sandbox: Sandbox) -> NodeResult:
    """Return the hash of the checked-out commit as output."""
    commit = head_hash(sandbox)
    return NodeResult.success(commit) if commit else NodeResult.failure("HEAD names no commit")


def branch_changes(sandbox: Sandbox) -> list[str]:
    """Return the paths in which HEAD differs from where it left the main branch."""
    span = ("origin/HEAD", "HEAD", "--")
    shown = _git(sandbox, "diff", "--name-only", "-z", "--no-renames", "--no-ext-diff", *span)
    return shown.stdout.decode("utf-8", "replace").split("\0") if shown.ok else []


def commit_since(base: str, *, needed: bool = True) -> NodeFunction:
    """Return a node function that commits all changes, with a message made from the intent.

    `base` names the node whose output is the commit that the run started from. If neither the work
    tree nor HEAD has changed since, the node fails, or says so if no change is `needed`.
    """

    def commit(ctx: RunContext, sandbox: Sandbox) -> NodeResult:
        unchanged = _falsely_modified(sandbox)
        staged = _logged(sandbox, "add", "--all")
        if staged.status == "failure":
            return staged
        if unchanged:
            _git(sandbox, "update-index", "-z", "--index-info", stdin=b"".join(unchanged.values()))
        if not _git(sandbox, "diff", "--cached", "--quiet").ok:
            return _commit(sandbox, commit_message(ctx))
        if head_hash(sandbox) == ctx.results[base].output:
            said = "nothing was changed: there is nothing to commit"
            return NodeResult.failure(said) if needed else NodeResult.success(said)
        return NodeResult.success("everything was committed already")

    return commit


def unchanged_since(base: str) -> NodeFunction:
    """Return a node function that fails if files or commits were changed since the node `base`."""

    def check(ctx: RunContext, sandbox: Sandbox) -> NodeResult:
        if head_hash(sandbox) != ctx.results[base].output:
            return NodeResult.failure("commits were added; this run may only read")
        changed = uncommitted_files(sandbox)
        if changed.status == "success" and changed.output:
            return NodeResult.failure("files were changed; this run may only read", changed.output)
        return changed

    return check


def only_documentation_since(base: str) -> NodeFunction:
    """Return a node function that fails if a file that is no documentation was changed since the
    node `base`: Markdown, reStructuredText and AsciiDoc count as documentation."""

    def check(ctx: RunContext, sandbox: Sandbox) -> NodeResult:
        staged = _git(sandbox, "add", "--all", "--intent-to-add")
        if not staged.ok:
            return command_result(staged, ("git", "add"))
        changed = changed_since(ctx.results[base].output, sandbox)
        others = [path for path in changed if not path.lower().endswith(_DOCUMENTATION)]
        if others:
            return NodeResult.failure(f"{len(others)} other files changed", "\n".join(others))
        return NodeResult.success(f"{len(changed)} files of documentation changed")

    return check


def uncommitted_files(sandbox: Sandbox) -> NodeResult:
    """Return the files that differ from HEAD, one a line in the form of `git status`."""
    status = _git(sandbox, *_STATUS)
    if not status.ok:
        return command_result(status, ("git", *_STATUS))
    entries = [entry for entry in status.stdout.split(b"\0") if entry]
    unchanged = _falsely_modified(sandbox) if entries else {}
    changed = [entry for entry in entries if entry[:3] != b" M " or entry[3:] not in unchanged]
    return NodeResult.success(b"\n".join(changed).decode(errors="replace"))


def head_hash(sandbox: Sandbox) -> str:
    """Return the hash of the checked-out commit, or an empty string."""
    return _text(sandbox, "rev-parse", "--verify", "HEAD") or ""


def unchanged_from(commit: str, sandbox: Sandbox) -> bool:
    """Return True if the work tree and HEAD equal the commit. Files that git ignores may differ."""
    changed = uncommitted_files(sandbox)
    if changed.status == "failure" or changed.output:
        return False
    return _git(sandbox, "diff", "--quiet", "--no-ext-diff", commit, "HEAD").ok


def changed_since(commit: str, sandbox: Sandbox) -> list[str]:
    """Return the tracked files whose content differs from the commit's."""
    listed = _git(sandbox, "diff", "--name-only", "-z", "--no-ext-diff", "--no-renames", commit)
    return [os.fsdecode(path) for path in listed.stdout.split(b"\0") if path]


def commit_message(ctx: RunContext) -> str:
    """Return a subject of at most 72 characters, the rest of the intent, and the run id."""
    first, _, rest = (ctx.intent.strip() or "Changes by Harness").partition("\n")
    subject = textwrap.shorten(first, _SUBJECT_WIDTH, placeholder=" …")
    full_subject = "" if subject == first else first
    parts = (subject, full_subject, rest.strip(), f"Harness-Run: {ctx.run_id}")
    return inert_quotes("\n\n".join(part for part in parts if part))


def changes_to_review(ctx: RunContext, sandbox: Sandbox) -> NodeResult:
    """Return the commits and the diff between a base and HEAD.

    The base is the merge base with the option `base`, or else with the first common main branch
    that HEAD has left. Without one it is the parent commit, or the empty tree if HEAD has none.
    """
    asked = ctx.options.get(BASE_OPTION, "")
    if asked and _text(sandbox, "rev-parse", "-q", "--verify", f"{asked}^{{commit}}") is None:
        return NodeResult.failure(f"no commit {asked!r} in the sandbox, as --set base= asks for")
    if asked and _git(sandbox, "merge-base", "--is-ancestor", "HEAD", asked).ok:
        return NodeResult.failure(f"nothing to review: HEAD adds nothing to {asked!r}")
    base, why = _review_base(sandbox, (asked,) if asked else _MAIN_BRANCHES)
    span = f"{base}..HEAD"
    log = _text(sandbox, "log", "--no-color", "--format=%h %an: %s", span) or ""
    stat = _text(sandbox, "diff", "--no-color", "--no-ext-diff", "--stat", span) or ""
    diff = _text(sandbox, "diff", "--no-color", "--no-ext-diff", span) or ""
    if not diff:
        return NodeResult.failure(f"nothing to review: {span} ({why}) changes nothing")
    shown = truncate_middle(diff, MAX_DIFF_CHARS)
    return NodeResult.success(f"{span} ({why})\n\n{log}\n\n{stat}\n\n{shown}")


def changes_since_release(ctx: RunContext, sandbox: Sandbox) -> NodeResult:
    """Return the commits, with their messages, since the option `base`, the newest tag before HEAD,
    or the first commit."""
    asked = ctx.options.get(BASE_OPTION, "")
    earlier = named_commit(asked, sandbox) if asked else next(iter(earlier_commits(sandbox)), None)
    if asked and earlier is None:
        return NodeResult.failure(f"no commit {asked!r} in the sandbox, as --set base= asks for")
    span = f"{earlier.commit}..HEAD" if earlier else "HEAD"
    since = f"since {earlier.name}" if earlier else "since the first commit"
    log = _text(sandbox, "log", "--no-color", "--no-merges", "--stat", "--format=%h %s%n%n%b", span)
    if not log:
        return NodeResult.failure(f"nothing was changed {since}")
    return NodeResult.success(f"{span} ({since})\n\n{truncate_middle(log, MAX_DIFF_CHARS)}")


def _review_base(sandbox: Sandbox, branches: tuple[str, ...]) -> tuple[str, str]:
    if left := _left_branch(sandbox, branches):
        return left.commit, f"since it left {left.name}"
    if parent := _text(sandbox, "rev-parse", "-q", "--verify", "HEAD~1"):
        return parent, "the last commit"
    empty_tree = _text(sandbox, "hash-object", "-t", "tree", "/dev/null")
    return empty_tree or "", "the first commit"


class NamedCommit(NamedTuple):
    """A commit, and the name that leads to it."""

    commit: str
    name: str


def _left_branch(sandbox: Sandbox, branches: tuple[str, ...]) -> NamedCommit | None:
    """Return where HEAD left the first of these branches that it has left."""
    head = head_hash(sandbox)
    for branch in branches:
        base = _text(sandbox, "merge-base", "HEAD", branch)
        if base and base != head:
            return NamedCommit(base, branch)
    return None


def named_commit(name: str, sandbox: Sandbox) -> NamedCommit | None:
    """Return the commit of a branch, tag or hash that a user names; None if there is none."""
    commit = _text(sandbox, "rev-parse", "-q", "--verify", "--end-of-options", f"{name}^{{commit}}")
    return NamedCommit(commit, name) if commit else None


def earlier_commits(sandbox: Sandbox) -> list[NamedCommit]:
    """Return the newest tag before HEAD and the commit where HEAD left a main branch, if any."""
    tag = _text(sandbox, "describe", "--tags", "--abbrev=0", "HEAD~1")
    tagged = named_commit(f"refs/tags/{tag}", sandbox) if tag else None
    left = _left_branch(sandbox, _MAIN_BRANCHES)
    found = [tagged._replace(name=f"tag {tag}")] if tagged else []
    return [*found, left._replace(name=f"where it left {left.name}")] if left else found


def check_out(commit: str, sandbox: Sandbox) -> NodeResult:
    """Check out a commit, over uncommitted changes of tracked files; untracked files stay."""
    args = ("checkout", "--quiet", "--force", "--detach", commit)
    return command_result(_git(sandbox, *args), ("git", *args))


def _falsely_modified(sandbox: Sandbox) -> dict[bytes, bytes]:
    return dict(falsely_modified(lambda args, stdin: _git(sandbox, *args, stdin=stdin)))


def _commit(sandbox: Sandbox, message: str) -> NodeResult:
    author = () if _git(sandbox, "config", "user.email").ok else _AUTHOR
    commit = ("commit", "--quiet", "--no-verify", "--file=-")
    done = _git(sandbox, *author, *commit, stdin=message.encode(errors="replace"))
    if not done.ok:
        return command_result(done, ("git", *commit))
    return _logged(sandbox, "show", "--stat", "--format=%h %s", "HEAD")


def _text(sandbox: Sandbox, *args: str) -> str | None:
    result = _git(sandbox, *args)
    return result.stdout.decode("utf-8", "replace").strip() if result.ok else None


def _git(sandbox: Sandbox, *args: str, stdin: bytes = b"") -> ExecResult:
    return sandbox.exec(Command(argv=("git", *args), stdin=stdin), discard_output)


def _logged(sandbox: Sandbox, *args: str) -> NodeResult:
    """Run git with live output."""
    return command_result(sandbox.exec(Command(argv=("git", *args))), ("git", *args))
