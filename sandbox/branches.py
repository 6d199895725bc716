"""The branch that shows a run's work: in the user's repository, and at its remote when asked."""

from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from contracts.errors import GitFailed
from sandbox.git import branch_ref, our_repository, users_repository
from sandbox.repos import BaseCommit

_LATEST = int(datetime.max.replace(microsecond=0, tzinfo=UTC).timestamp())


class Branch(NamedTuple):
    """A branch, and the date of its newest commit."""

    name: str
    committed_at: datetime


def publish_branch(
    base: BaseCommit, branch: str, commit: str, *, replaces: str | None = None
) -> Path:
    """Create or move the branch in the user's repository; return the repository that holds it.

    For a URL that is the bare repository, which has the branch already. Working tree, index,
    HEAD, configuration and every other ref stay byte for byte as they were, and no hook runs. An
    existing branch of that name must be an ancestor of `commit`, or be at the commit `replaces`.

    Raises:
        GitFailed: git refused.
    """
    ref = branch_ref(branch)
    if base.path is None:
        return base.bare
    with users_repository(base.path) as repository:
        tip = repository.git.for_each_ref("--format=%(objectname)", ref)
        # Never forced over a commit that this caller does not know.
        force = "+" if replaces is not None and replaces == tip else ""
        repository.git.fetch(
            "--no-write-fetch-head", "--no-auto-maintenance", "--no-tags",
            "--no-prune", "--no-recurse-submodules", "--no-write-commit-graph",
            "--", str(base.bare), f"{force}{commit}:{ref}",
        )  # fmt: skip
    return base.path


def push_branch(base: BaseCommit, branch: str) -> None:
    """Push the published branch to the URL, or to `origin` of a local repository; never by force.

    Raises:
        GitFailed: no `origin`, no permission, or another branch of that name is there.
    """
    ref = branch_ref(branch)
    with users_repository(base.path or base.bare) as repository:
        repository.git.push(
            "--quiet", "--no-verify", "--no-follow-tags", "--no-recurse-submodules",
            "--", "origin" if base.path else base.address, f"{ref}:{ref}",
        )  # fmt: skip


def push_address(base: BaseCommit) -> str | None:
    """Return the address that `push_branch` pushes to; None for a repository without `origin`."""
    if base.path is None:
        return base.address
    try:
        with users_repository(base.path) as repository:
            return str(repository.git.remote("get-url", "--push", "origin"))
    except GitFailed:
        return None


def list_branches(bare: Path, prefix: str) -> list[Branch]:
    """Return the branches of one of our bare repositories below this prefix, sorted by name."""
    with our_repository(bare) as repository:
        # Not as GitPython's refs: one of them would fail at a date that Python does not have.
        lines = repository.git.for_each_ref(
            "--format=%(committerdate:unix) %(refname:short)", f"refs/heads/{prefix}"
        ).splitlines()
    pairs = (line.split(" ", maxsplit=1) for line in lines)
    return [Branch(name, _datetime(int(seconds))) for seconds, name in pairs]


def _datetime(seconds: int) -> datetime:
    """Return the nearest date that Python has: a commit can claim any."""
    return datetime.fromtimestamp(max(0, min(seconds, _LATEST)), UTC)


def remove_branch(bare: Path, branch: str) -> None:
    """Remove a branch of one of our bare repositories, if it exists."""
    with our_repository(bare) as repository:
        repository.git.update_ref("-d", branch_ref(branch))


def collect_garbage(bare: Path) -> None:
    """Delete the objects of one of our bare repositories that no ref reaches.

    Objects younger than an hour stay, as a branch may be made of them next. Where `git gc` fails,
    or another one is running, all stays until the next time.
    """
    with suppress(GitFailed), our_repository(bare) as repository:
        # `unused_bases` reads the time of a ref's file, which a packed ref does not have.
        repository.git(c="gc.packRefs=false").gc("--quiet", "--prune=1.hour.ago")
