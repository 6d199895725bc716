"""Where a run's work goes: a branch in the user's repository, and further when asked."""

from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from contracts.errors import GitFailed
from sandbox.git import USERS, branch_ref, git, git_text
from sandbox.repos import BaseCommit

_LATEST = int(datetime.max.replace(microsecond=0, tzinfo=UTC).timestamp())


class Branch(NamedTuple):
    """A branch, and when its newest commit was made."""

    name: str
    committed_at: datetime


def publish_branch(
    base: BaseCommit, branch: str, commit: str, *, replaces: str | None = None
) -> Path:
    """Make the branch appear in the user's repository; for a URL it is in the bare one already.

    Gives the repository that holds it. Working tree, index, HEAD, config and every other ref
    stay byte for byte as they were, and no hook runs. A branch of that name must not be
    there yet, or must be an ancestor of `commit`, or be where we left it: at `replaces`.

    Raises:
        GitFailed: git refused.
    """
    ref = branch_ref(branch)
    if base.path is None:
        return base.bare
    force = "+" if replaces is not None and replaces == _tip(base.path, ref) else ""
    git(
        "fetch", "--no-write-fetch-head", "--no-auto-maintenance", "--no-tags",
        "--no-prune", "--no-recurse-submodules", "--no-write-commit-graph",
        "--", str(base.bare), f"{force}{commit}:{ref}",
        at=base.path, rules=USERS,
    )  # fmt: skip
    return base.path


def push_branch(base: BaseCommit, branch: str) -> None:
    """Push the published branch to the URL, or to `origin` of a local repository; never by force.

    Raises:
        GitFailed: no `origin`, no permission, or another branch of that name is there.
    """
    ref = branch_ref(branch)
    git(
        "push", "--quiet", "--no-verify", "--no-follow-tags", "--no-recurse-submodules",
        "--", "origin" if base.path else base.address, f"{ref}:{ref}",
        at=base.path or base.bare, rules=USERS,
    )  # fmt: skip


def push_address(base: BaseCommit) -> str | None:
    """The address that `push` pushes to; None when a local repository has no `origin`."""
    if base.path is None:
        return base.address
    try:
        return git_text("remote", "get-url", "--push", "origin", at=base.path, rules=USERS)
    except GitFailed:
        return None


def list_branches(bare: Path, under: str) -> list[Branch]:
    """The branches of a bare repository of ours whose names begin so, in order."""
    told = ("for-each-ref", "--format=%(committerdate:unix) %(refname:short)")
    lines = git_text(*told, f"refs/heads/{under}", at=bare).splitlines()
    pairs = (line.split(" ", maxsplit=1) for line in lines)
    return [Branch(name, _moment(int(seconds))) for seconds, name in pairs]


def _moment(seconds: int) -> datetime:
    """The nearest moment that there is: a commit says what it wants."""
    return datetime.fromtimestamp(max(0, min(seconds, _LATEST)), UTC)


def remove_branch(bare: Path, branch: str) -> None:
    """Remove a branch of a bare repository of ours; none there is fine."""
    git("update-ref", "-d", branch_ref(branch), at=bare)


def collect_garbage(bare: Path) -> None:
    """Give back the room of what no branch holds any more; ours never do so by themselves.

    What is younger than an hour stays: somebody may be about to make a branch of it. So does all,
    until the next time, where git does that already or needs too long.
    """
    with suppress(GitFailed):
        # Packed, a ref would not tell when it was used last, as `unused_bases` asks.
        git("-c", "gc.packRefs=false", "gc", "--quiet", "--prune=1.hour.ago", at=bare)


def _tip(repository: Path, ref: str) -> str:
    named = ("for-each-ref", "--format=%(objectname)", ref)
    return git_text(*named, at=repository, rules=USERS)
