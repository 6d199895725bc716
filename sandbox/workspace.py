"""The workspace: a repository goes into a sandbox as a bundle, its commits come out as one.

What is inside belongs to the agent, `.git` included. Git runs on it inside only; the host
sees nothing but the bytes of a bundle, and those only after verification.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from contracts.errors import GitFailed, WorkRefused
from contracts.false_changes import falsely_modified
from contracts.run import DiffStat
from contracts.sandbox import DEFAULT_AUTHOR, ExecResult, Sandbox
from sandbox.bundles import bundle_base, unbundle_work
from sandbox.diffs import diff, diff_stat
from sandbox.git import branch_ref, error_text, git, git_text
from sandbox.git_inside import check_result, git_inside, remove_inside, try_git_inside
from sandbox.omitted import JUNK, LIST_LIMIT, ignored_files_notice, reset_index
from sandbox.repos import BaseCommit

WORK_LIMIT = 512 * 1024 * 1024
"""Bytes of a bundle that is taken out at most."""

_BUNDLE = ".git/harness.bundle"


@dataclass(frozen=True, kw_only=True)
class WorkCommit:
    """What a run made: a commit, verified and fetched into the bare repository.

    `notices` say what is not as one would expect: files left out, history rewritten.
    """

    commit: str
    branch: str
    diff_stat: DiffStat
    diff: str
    notices: tuple[str, ...] = ()


def clone_into_sandbox(sandbox: Sandbox, base: BaseCommit, branch: str) -> None:
    """Clone the base commit into the sandbox's empty workspace, with `branch` checked out.

    The tags of its history come along, so that `git describe` gives what it gives on the host.
    The clone has no remote; commits in it are by `COMMITS_AS`. The ref
    `origin/HEAD` is where the base left its main branch, so that a review knows its range.

    Raises:
        GitFailed: a git command inside failed; the message holds its last words.
        SandboxLost: the sandbox is gone.
    """
    branch_ref(branch)
    git_inside(sandbox, "init", "--quiet", "--template=", "--initial-branch=harness-start")
    packed = bundle_base(base)
    sandbox.write_file(_BUNDLE, packed.bundle)
    if (shallow := base.bare / "shallow").exists():
        sandbox.write_file(".git/shallow", shallow.read_bytes())
    sandbox.write_file(".git/info/exclude", "\n".join((*JUNK, "")).encode())
    git_inside(sandbox, "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", _BUNDLE, base.ref)
    sandbox.write_file(".git/packed-refs", packed.tags)
    git_inside(sandbox, "config", "user.name", DEFAULT_AUTHOR.name)
    git_inside(sandbox, "config", "user.email", DEFAULT_AUTHOR.email)
    git_inside(sandbox, "checkout", "--quiet", "-b", branch, base.commit)
    if base.forked_at is not None:
        git_inside(sandbox, "update-ref", "refs/remotes/origin/HEAD", base.forked_at)
    check_result(remove_inside(sandbox, _BUNDLE), "rm")


def collect_work(
    sandbox: Sandbox, base: BaseCommit, branch: str, *, message: str
) -> WorkCommit | None:
    """Commit what is left uncommitted, and fetch what HEAD holds into the bare repository.

    It is there as `branch`, whatever the branch is called inside. None when nothing changed.

    Raises:
        WorkRefused: no repository left inside, nothing of the work could be added, or a
            bundle that is corrupt, too large, forged or that git cannot compare with the base.
        SandboxLost: the sandbox is gone.
    """
    try:
        _unlock(sandbox)
        away = reset_index(sandbox)
        left_out = _commit_all(sandbox, message)
        bundle = _packed(sandbox, base)
        if bundle is None and left_out:
            raise WorkRefused(left_out[0])
        if bundle is None:
            return None
        commit = unbundle_work(bundle, base, branch)
        return WorkCommit(
            commit=commit,
            branch=branch,
            diff_stat=diff_stat(base, commit),
            diff=diff(base, commit),
            notices=(
                *left_out,
                *away,
                *ignored_files_notice(sandbox),
                *_rewritten(base, commit),
                *_embedded(base, commit),
            ),
        )
    except GitFailed as error:
        raise WorkRefused(f"the work cannot be taken out: {error}") from error


def _unlock(sandbox: Sandbox) -> None:
    # A git that was killed leaves its lock, and every later one would refuse to work.
    # Attributes of its own would have git take other bytes than were checked.
    remove_inside(sandbox, ".git/index.lock", ".git/HEAD.lock", ".git/info/attributes")
    git_inside(sandbox, "rev-parse", "--git-dir")


def _commit_all(sandbox: Sandbox, message: str) -> tuple[str, ...]:
    """Commit every change in the workspace; gives what could not be added, as notices."""
    same = falsely_modified(partial(_git_listing, sandbox))
    added = try_git_inside(sandbox, "add", "--all", "--ignore-errors")
    if same:
        git_inside(sandbox, "update-index", "-z", "--index-info", stdin=b"".join(same.values()))
    if not try_git_inside(sandbox, "diff", "--cached", "--quiet").ok:
        commit = ("commit", "--quiet", "--no-verify", "--allow-empty-message")
        words = message.replace("\0", "").encode(errors="replace")
        git_inside(sandbox, *commit, "--file=-", stdin=words)
    return () if added.ok else (f"not all is in the branch: {error_text(added.stderr)}",)


def _git_listing(sandbox: Sandbox, args: tuple[str, ...], stdin: bytes) -> ExecResult:
    return try_git_inside(sandbox, *args, stdin=stdin, output_limit=LIST_LIMIT)


def _packed(sandbox: Sandbox, base: BaseCommit) -> bytes | None:
    """A bundle of what HEAD has over the base; None when HEAD is the base."""
    span = (f"^{base.commit}", "HEAD")
    if git_inside(sandbox, "rev-list", "--count", *span).stdout.strip() == b"0":
        head = git_inside(sandbox, "rev-parse", "HEAD").stdout.decode().strip()
        if head == base.commit:
            return None
        raise WorkRefused(f"HEAD went back to before {base.commit[:7]} and nothing stands on it")
    packing = ("bundle", "create", "--quiet", "-", *span)
    packed = check_result(try_git_inside(sandbox, *packing, output_limit=WORK_LIMIT), "git bundle")
    if packed.truncated:
        raise WorkRefused(
            f"the work is {packed.stdout_size} bytes packed, over the limit of {WORK_LIMIT}"
        )
    return packed.stdout


def _rewritten(base: BaseCommit, commit: str) -> Iterator[str]:
    if git_text("rev-list", "--count", f"{commit}..{base.commit}", at=base.bare) != "0":
        yield f"history was rewritten: the work does not stand on {base.commit[:7]}"


def _embedded(base: BaseCommit, commit: str) -> Iterator[str]:
    """Repositories inside the repository: git keeps a pointer and none of their files."""
    changes = git("diff", "--raw", "-z", "--no-renames", base.commit, commit, at=base.bare)
    if re.search(rb":\d+ 160000 ", changes):
        yield "a directory of the work is a git repository itself: its files are not in the branch"
