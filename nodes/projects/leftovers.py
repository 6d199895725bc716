"""Keeps what installs and tests write out of the work: only agents' changes are for the branch."""

import re
from collections.abc import Collection
from contextlib import suppress
from typing import NamedTuple

from contracts.errors import SandboxFileError
from contracts.sandbox import EXCLUDES, Command, ExecResult, Sandbox
from nodes.node_sandbox import discard_output

_STATUS = (
    "git", "-c", "core.fsmonitor=false", "--no-optional-locks", "status", "--porcelain", "-z",
    "--no-renames", "--ignore-submodules=all",
)  # fmt: skip
_RESTORE = ("git", "-c", "core.hooksPath=/dev/null", "checkout", "--quiet")
_SPECIAL = re.compile(rb"([\\*?\[\]!#]| (?=$))")
_LIMIT = 64 * 1024 * 1024
_TIMEOUT_S = 120.0
_MANY = 500
"""New files that are listed one by one; of more, whole folders are."""


class _Changes(NamedTuple):
    """Paths that git does not track, and tracked files that differ from the index."""

    untracked: frozenset[bytes]
    modified: frozenset[bytes]


def exec_without_traces(command: Command, sandbox: Sandbox) -> ExecResult:
    """Run a command so that git shows no change of it afterwards.

    Files that it creates stay, and git ignores them. Tracked files that it changes are restored,
    unless they were changed before.
    """
    before = _changes(sandbox)
    result = sandbox.exec(command)
    after = _changes(sandbox) if before is not None else None
    if before is None or after is None:
        return result
    if modified := sorted(after.modified - before.modified):
        _restore(modified, sandbox)
    if created := after.untracked - before.untracked:
        _exclude(created, before.untracked, sandbox)
    return result


def _changes(sandbox: Sandbox, *, folders: bool = False) -> _Changes | None:
    """Return what git shows in the workspace; None if it holds no repository."""
    kind = f"--untracked-files={'normal' if folders else 'all'}"
    command = Command(argv=(*_STATUS, kind), timeout_s=_TIMEOUT_S, output_limit=_LIMIT)
    shown = sandbox.exec(command, discard_output)
    if not shown.ok or shown.truncated:
        return None
    entries = [entry for entry in shown.stdout.split(b"\0") if entry]
    return _Changes(
        frozenset(entry[3:] for entry in entries if entry.startswith(b"??")),
        frozenset(entry[3:] for entry in entries if entry[1:2] in (b"M", b"D", b"T")),
    )


def _restore(paths: list[bytes], sandbox: Sandbox) -> None:
    listed = b"\0".join((*paths, b""))
    argv = (*_RESTORE, "--pathspec-from-file=-", "--pathspec-file-nul")
    sandbox.exec(Command(argv=argv, stdin=listed, timeout_s=_TIMEOUT_S), discard_output)


def _exclude(created: Collection[bytes], before: Collection[bytes], sandbox: Sandbox) -> None:
    if len(created) > _MANY and (normal := _changes(sandbox, folders=True)):
        # A folder with files of before stays visible: an agent may have made them.
        created = [
            path for path in normal.untracked if not any(one.startswith(path) for one in before)
        ]
    lines = [b"/" + _SPECIAL.sub(rb"\\\1", path) for path in sorted(created) if b"\n" not in path]
    try:
        known = sandbox.read_file(EXCLUDES).splitlines()
    except SandboxFileError:
        known = []
    text = b"\n".join((*dict.fromkeys((*known, *lines)), b""))
    with suppress(SandboxFileError):  # the workspace is the agent's: anything may be there
        sandbox.write_file(EXCLUDES, text)
