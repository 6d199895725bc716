"""What was there when a run's work was checked, but is not in the work: none of it silently."""

from collections.abc import Collection, Iterator
from os import fsdecode
from typing import NamedTuple

from contracts.sandbox import Sandbox
from sandbox.inside import git_in, tried_in

JUNK = (
    "__pycache__/", "*.pyc", ".pytest_cache/", ".mypy_cache/", ".ruff_cache/", "*.egg-info/",
    ".venv/", "node_modules/", ".tox/", ".nox/", ".hypothesis/", ".coverage",
)  # fmt: skip
"""What running tests leaves behind; kept out of the work by `.git/info/exclude`."""

_NAMED = 5
LIST_LIMIT = 64 * 1024 * 1024
"""Bytes of a listing of files."""


def show_all(sandbox: Sandbox) -> tuple[str, ...]:
    """Let git see every file again that the index says not to look at; gives notices.

    Files that a sparse checkout took away stay in the work as they were, and are told of.

    Raises:
        GitFailed: a git command inside failed.
        SandboxLost: the sandbox is gone.
    """
    listed = git_in(sandbox, "ls-files", "-v", "-z", output_limit=LIST_LIMIT).stdout
    flags = [_Flag(entry[:1], entry[2:]) for entry in listed.split(b"\0") if entry]
    _update(sandbox, "--no-assume-unchanged", [flag.path for flag in flags if flag.unchanged])
    skipped = {flag.path for flag in flags if flag.skipped}
    if not skipped:
        return ()
    _update(sandbox, "--no-skip-worktree", skipped)
    deleted = git_in(sandbox, "ls-files", "--deleted", "-z", output_limit=LIST_LIMIT).stdout
    away = sorted(skipped & set(deleted.split(b"\0")))
    _update(sandbox, "--skip-worktree", away)
    if not away:
        return ()
    return (
        f"not there when the work was checked, but in the branch as before: {_paths_line(away)}",
    )


def ignored(sandbox: Sandbox) -> tuple[str, ...]:
    """A notice of the files that git ignores, but for junk; the base had none of them.

    Raises:
        SandboxLost: the sandbox is gone.
    """
    but = (f":(exclude,glob)**/{name}{'**' * name.endswith('/')}" for name in JUNK)
    which = ("--others", "--ignored", "--exclude-standard", "-z", "--", ".", *but)
    found = tried_in(sandbox, "ls-files", *which)
    paths = [path for path in found.stdout.split(b"\0") if path]
    if not found.ok or not paths:
        return ()
    return (f"not in the branch, because git ignores it: {_paths_line(paths)}",)


class _Flag(NamedTuple):
    """A file of the index as `git ls-files -v` has it."""

    tag: bytes
    path: bytes

    @property
    def unchanged(self) -> bool:
        return self.tag.islower()

    @property
    def skipped(self) -> bool:
        return self.tag.upper() == b"S"


def _update(sandbox: Sandbox, flag: str, paths: Collection[bytes]) -> None:
    if paths:
        git_in(sandbox, "update-index", flag, "-z", "--stdin", stdin=b"\0".join((*paths, b"")))


def _paths_line(paths: list[bytes]) -> str:
    return ", ".join(_names(paths))


def _names(paths: list[bytes]) -> Iterator[str]:
    for path in paths[:_NAMED]:
        name = fsdecode(path)
        yield name if name.isprintable() else repr(name)
    if len(paths) > _NAMED:
        yield f"and {len(paths) - _NAMED} more"
