"""How a commit of a run differs from its base."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from contracts.run import DiffStat
from sandbox.git import git, git_first_bytes, git_text
from sandbox.repos import BaseCommit

DIFF_LIMIT = 1024 * 1024
"""Bytes of a diff that are kept; the whole of it is in the branch."""

_PLAIN = ("--no-ext-diff", "--no-textconv", "--no-color", "--submodule=short")
_BIG = 8 << 20
_BIG_IS_BINARY = ("-c", f"core.bigFileThreshold={_BIG}")


def diff(base: BaseCommit, commit: str) -> str:
    """The patch from the base to `commit`, new files included, at most DIFF_LIMIT bytes of it.

    A binary file is named, not shown. A cut diff says so in its last line. Bytes that are not
    UTF-8 are kept as `surrogateescape` does.
    """
    patch = git_first_bytes(
        *_BIG_IS_BINARY, "diff", *_PLAIN, base.commit, commit, "--",
        at=base.bare, limit=DIFF_LIMIT + 1,
    )  # fmt: skip
    if len(patch) <= DIFF_LIMIT:
        return patch.decode("utf-8", "surrogateescape")
    kept = patch[:DIFF_LIMIT].decode("utf-8", "surrogateescape")
    return f"{kept}\n[cut here: the diff is longer than {DIFF_LIMIT} bytes]\n"


def diff_stat(base: BaseCommit, commit: str) -> DiffStat:
    """How much changed from the base to `commit`; binary files count as files only."""
    line = git_text(
        *_BIG_IS_BINARY, "diff", *_PLAIN, "--shortstat", base.commit, commit, "--", at=base.bare
    )
    return DiffStat(
        files=_count(r"(\d+) files? changed", line),
        insertions=_count(r"(\d+) insertion", line),
        deletions=_count(r"(\d+) deletion", line),
    )


def tree_id(base: BaseCommit, commit: str) -> str:
    """The id of the tree of a commit: equal trees hold equal files."""
    return git_text("rev-parse", "--verify", f"{commit}^{{tree}}", at=base.bare)


def changed_paths(base: BaseCommit, old: str, new: str) -> list[str]:
    """Paths of the files in which two commits differ, in order."""
    names = git("diff", "--name-only", "-z", "--no-renames", old, new, "--", at=base.bare)
    return [name.decode("utf-8", "replace") for name in names.split(b"\0") if name]


class FileChange(NamedTuple):
    """A file that differs: mode and id of its content, before and after; zeros for no file."""

    path: str
    before: str
    after: str


def file_changes(base: BaseCommit, commit: str) -> Iterator[FileChange]:
    """Every file in which `commit` differs from the base, in order; a moved one is two.

    Bytes of a path that are not UTF-8 are kept as `surrogateescape` does.
    """
    raw = git(
        "diff", "--raw", "-z", "--no-abbrev", "--no-renames", base.commit, commit, "--",
        at=base.bare,
    )  # fmt: skip
    fields = raw.decode("utf-8", "surrogateescape").split("\0")
    for about, path in zip(fields[::2], fields[1::2], strict=False):
        old_mode, new_mode, old, new, _ = about.removeprefix(":").split(" ")
        yield FileChange(path, f"{old_mode} {old}", f"{new_mode} {new}")


def file_diff(base: BaseCommit, commit: str, path: str, *, limit: int) -> str:
    """The patch of one file as text, whatever it holds; what is cut after `limit` bytes is told.

    Of a file larger than 8 MiB only the beginnings are shown, before and after: git would take
    forty bytes of memory for each of its lines.
    """
    sizes = [_size(base, at, path) for at in (base.commit, commit)]
    if max(sizes) > _BIG:
        before, after = (_beginning(base, at, path, limit) for at in (base.commit, commit))
        return f"before:\n{before}\nafter:\n{after}"
    at = ("--", f":(literal){path}")
    patch = git_first_bytes(
        "diff", "--text", *_PLAIN, base.commit, commit, *at, at=base.bare, limit=limit + 1
    )
    return _cut_text(patch, limit)


def _size(base: BaseCommit, commit: str, path: str) -> int:
    """Bytes of a file in a commit; 0 where it is none."""
    row = git("ls-tree", "-l", "-z", "--full-tree", commit, "--", f":(literal){path}", at=base.bare)
    size = row.partition(b"\t")[0].split()[-1:]
    return int(size[0]) if size and size[0].isdigit() else 0


def _beginning(base: BaseCommit, commit: str, path: str, limit: int) -> str:
    if not _size(base, commit, path):
        return "(nothing)"
    named = f"{commit}:{path}"
    return _cut_text(
        git_first_bytes("cat-file", "blob", named, at=base.bare, limit=limit + 1), limit
    )


def _cut_text(content: bytes, limit: int) -> str:
    text = content[:limit].decode("utf-8", "replace")
    if len(content) > limit:
        text += f"\n[… cut after {limit:,} bytes: what follows is not shown here …]"
    return text


def _count(pattern: str, line: str) -> int:
    found = re.search(pattern, line)
    return int(found[1]) if found else 0
