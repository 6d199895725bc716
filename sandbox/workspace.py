"""The workspace: a repository goes into a sandbox as a bundle, its commits come out as one.

What is inside belongs to the agent, `.git` included. Git runs on it inside only; the host
sees nothing but the bytes of a bundle, and those only after verification.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from contracts.errors import GitFailed, WorkRefused
from contracts.run import DiffStat
from contracts.same_bytes import same_bytes
from contracts.sandbox import COMMITS_AS, ExecResult, Sandbox
from sandbox.bundles import pack_base, unpack_work
from sandbox.diffs import diff, diff_stat
from sandbox.git import branch_ref, git, git_text, last_words
from sandbox.inside import checked, git_in, rm_in, tried_in
from sandbox.left_out import JUNK, LIST_LIMIT, ignored, show_all
from sandbox.repos import Base

WORK_LIMIT = 512 * 1024 * 1024
"""Bytes of a bundle that is taken out at most."""

_BUNDLE = ".git/harness.bundle"


@dataclass(frozen=True, kw_only=True)
class Work:
    """What a run made: a commit, verified and fetched into the bare repository.

    `notices` say what is not as one would expect: files left out, history rewritten.
    """

    commit: str
    branch: str
    diff_stat: DiffStat
    diff: str
    notices: tuple[str, ...] = ()


def put_in(sandbox: Sandbox, base: Base, branch: str) -> None:
    """Clone the base commit into the sandbox's empty workspace, with `branch` checked out.

    The tags of its history come along, so that `git describe` gives what it gives on the host.
    The clone has no remote; commits in it are by `COMMITS_AS`. The ref
    `origin/HEAD` is where the base left its main branch, so that a review knows its range.

    Raises:
        GitFailed: a git command inside failed; the message holds its last words.
        SandboxLost: the sandbox is gone.
    """
    branch_ref(branch)
    git_in(sandbox, "init", "--quiet", "--template=", "--initial-branch=harness-start")
    packed = pack_base(base)
    sandbox.write_file(_BUNDLE, packed.bundle)
    if (shallow := base.bare / "shallow").exists():
        sandbox.write_file(".git/shallow", shallow.read_bytes())
    sandbox.write_file(".git/info/exclude", "\n".join((*JUNK, "")).encode())
    git_in(sandbox, "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", _BUNDLE, base.ref)
    sandbox.write_file(".git/packed-refs", packed.tags)
    git_in(sandbox, "config", "user.name", COMMITS_AS.name)
    git_in(sandbox, "config", "user.email", COMMITS_AS.email)
    git_in(sandbox, "checkout", "--quiet", "-b", branch, base.commit)
    if base.forked_at is not None:
        git_in(sandbox, "update-ref", "refs/remotes/origin/HEAD", base.forked_at)
    checked(rm_in(sandbox, _BUNDLE), "rm")


def take_out(sandbox: Sandbox, base: Base, branch: str, *, message: str) -> Work | None:
    """Commit what is left uncommitted, and fetch what HEAD holds into the bare repository.

    It is there as `branch`, whatever the branch is called inside. None when nothing changed.

    Raises:
        WorkRefused: no repository left inside, nothing of the work could be added, or a
            bundle that is corrupt, too large, forged or that git cannot compare with the base.
        SandboxLost: the sandbox is gone.
    """
    try:
        _unlock(sandbox)
        away = show_all(sandbox)
        left_out = _commit_all(sandbox, message)
        bundle = _packed(sandbox, base)
        if bundle is None and left_out:
            raise WorkRefused(left_out[0])
        if bundle is None:
            return None
        commit = unpack_work(bundle, base, branch)
        return Work(
            commit=commit,
            branch=branch,
            diff_stat=diff_stat(base, commit),
            diff=diff(base, commit),
            notices=(
                *left_out,
                *away,
                *ignored(sandbox),
                *_rewritten(base, commit),
                *_embedded(base, commit),
            ),
        )
    except GitFailed as error:
        raise WorkRefused(f"the work cannot be taken out: {error}") from error


def _unlock(sandbox: Sandbox) -> None:
    # A git that was killed leaves its lock, and every later one would refuse to work.
    # Attributes of its own would have git take other bytes than were checked.
    rm_in(sandbox, ".git/index.lock", ".git/HEAD.lock", ".git/info/attributes")
    git_in(sandbox, "rev-parse", "--git-dir")


def _commit_all(sandbox: Sandbox, message: str) -> tuple[str, ...]:
    """Commit every change in the workspace; gives what could not be added, as notices."""
    same = same_bytes(partial(_git_listing, sandbox))
    added = tried_in(sandbox, "add", "--all", "--ignore-errors")
    if same:
        git_in(sandbox, "update-index", "-z", "--index-info", stdin=b"".join(same.values()))
    if not tried_in(sandbox, "diff", "--cached", "--quiet").ok:
        commit = ("commit", "--quiet", "--no-verify", "--allow-empty-message")
        words = message.replace("\0", "").encode(errors="replace")
        git_in(sandbox, *commit, "--file=-", stdin=words)
    return () if added.ok else (f"not all is in the branch: {last_words(added.stderr)}",)


def _git_listing(sandbox: Sandbox, args: tuple[str, ...], stdin: bytes) -> ExecResult:
    return tried_in(sandbox, *args, stdin=stdin, output_limit=LIST_LIMIT)


def _packed(sandbox: Sandbox, base: Base) -> bytes | None:
    """A bundle of what HEAD has over the base; None when HEAD is the base."""
    span = (f"^{base.commit}", "HEAD")
    if git_in(sandbox, "rev-list", "--count", *span).stdout.strip() == b"0":
        head = git_in(sandbox, "rev-parse", "HEAD").stdout.decode().strip()
        if head == base.commit:
            return None
        raise WorkRefused(f"HEAD went back to before {base.commit[:7]} and nothing stands on it")
    packing = ("bundle", "create", "--quiet", "-", *span)
    packed = checked(tried_in(sandbox, *packing, output_limit=WORK_LIMIT), "git bundle")
    if packed.truncated:
        raise WorkRefused(
            f"the work is {packed.stdout_size} bytes packed, over the limit of {WORK_LIMIT}"
        )
    return packed.stdout


def _rewritten(base: Base, commit: str) -> Iterator[str]:
    if git_text("rev-list", "--count", f"{commit}..{base.commit}", at=base.bare) != "0":
        yield f"history was rewritten: the work does not stand on {base.commit[:7]}"


def _embedded(base: Base, commit: str) -> Iterator[str]:
    """Repositories inside the repository: git keeps a pointer and none of their files."""
    changes = git("diff", "--raw", "-z", "--no-renames", base.commit, commit, at=base.bare)
    if re.search(rb":\d+ 160000 ", changes):
        yield "a directory of the work is a git repository itself: its files are not in the branch"
