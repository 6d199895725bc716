"""What was there when work was checked but is not in it: junk aside, none of it silently."""

from collections.abc import Collection, Iterator
from os import fsdecode

from contracts.sandbox import Sandbox
from sandbox.git_inside import check_result, git_inside, remove_inside, try_git_inside

JUNK = (
    "__pycache__/", "*.pyc", ".pytest_cache/", ".mypy_cache/", ".ruff_cache/", "*.egg-info/",
    ".venv/", "node_modules/", ".tox/", ".nox/", ".hypothesis/", ".coverage",
)  # fmt: skip
"""What running tests leaves behind; kept out of the work by `.git/info/exclude`."""

_NAMED = 5
LIST_LIMIT = 128 * 1024 * 1024
"""Bytes of a listing of files."""


def reset_index(sandbox: Sandbox) -> tuple[str, ...]:
    """Let git see every file as it is, whatever its index says of it; gives notices.

    The index is the agent's: what it says of a file that was not looked at is forgotten. Files
    that a sparse checkout took away stay in the work as they were, and are told of.

    Raises:
        GitFailed: a git command inside failed.
        SandboxLost: the sandbox is gone.
    """
    listed = git_inside(sandbox, "ls-files", "-v", "--stage", "-z", output_limit=LIST_LIMIT).stdout
    entries = [_Entry(entry) for entry in listed.split(b"\0") if entry]
    check_result(remove_inside(sandbox, ".git/index"), "rm")
    _update(sandbox, [entry.info for entry in entries], "--index-info")
    try_git_inside(sandbox, "update-index", "-q", "--refresh")  # fails where a file has changed
    skipped = {entry.path for entry in entries if entry.is_skipped}
    if not skipped:
        return ()
    deleted = git_inside(sandbox, "ls-files", "--deleted", "-z", output_limit=LIST_LIMIT).stdout
    away = sorted(skipped & set(deleted.split(b"\0")))
    _update(sandbox, away, "--skip-worktree", "--stdin")
    if not away:
        return ()
    return (
        f"not there when the work was checked, but in the branch as before: {_paths_line(away)}",
    )


def ignored_files_notice(sandbox: Sandbox) -> tuple[str, ...]:
    """A notice of the files that git ignores, but for junk; the base had none of them.

    Raises:
        SandboxLost: the sandbox is gone.
    """
    but = (f":(exclude,glob)**/{name}{'**' * name.endswith('/')}" for name in JUNK)
    which = ("--others", "--ignored", "--exclude-standard", "-z", "--", ".", *but)
    found = try_git_inside(sandbox, "ls-files", *which, output_limit=LIST_LIMIT)
    paths = [path for path in found.stdout.split(b"\0") if path]
    if not found.ok or not paths:
        return ()
    return (f"not in the branch, because git ignores it: {_paths_line(paths)}",)


class _Entry(bytes):
    """A file of the index as `git ls-files -v --stage` has it."""

    @property
    def is_skipped(self) -> bool:
        return self[:1].upper() == b"S"

    @property
    def info(self) -> bytes:
        """For `update-index --index-info`."""
        return self[2:]

    @property
    def path(self) -> bytes:
        return self.partition(b"\t")[2]


def _update(sandbox: Sandbox, lines: Collection[bytes], *how: str) -> None:
    if lines:
        git_inside(sandbox, "update-index", "-z", *how, stdin=b"\0".join((*lines, b"")))


def _paths_line(paths: list[bytes]) -> str:
    return ", ".join(_names(paths))


def _names(paths: list[bytes]) -> Iterator[str]:
    for path in paths[:_NAMED]:
        name = fsdecode(path)
        yield name if name.isprintable() else repr(name)
    if len(paths) > _NAMED:
        yield f"and {len(paths) - _NAMED} more"
