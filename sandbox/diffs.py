"""Commits in our bare repositories: how one differs from its base, and its symbolic links."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from contracts.run import DiffStat
from sandbox.git import Repository, our_repository
from sandbox.repos import BaseCommit

DIFF_LIMIT = 1024 * 1024
"""Bytes of a diff that are kept; the whole of it is in the branch."""

# No diff driver or text converter may run, whatever the attributes in a commit name.
_PLAIN = ("--no-ext-diff", "--no-textconv", "--no-color", "--submodule=short")
_BIG = 8 << 20
"""Bytes from which a file is not compared line by line: git takes forty bytes for each line."""
_BIG_IS_BINARY = f"core.bigFileThreshold={_BIG}"
_MAX_LINK = 4_096
"""Bytes of a link's target. Linux makes no longer one, whatever a repository claims."""


def diff(base: BaseCommit, commit: str) -> str:
    """Return the patch from the base to `commit`, new files included, at most DIFF_LIMIT bytes.

    A binary file is named, not shown. A cut diff says so in its last line. Bytes that are not
    UTF-8 are kept as `surrogateescape` does.
    """
    with our_repository(base.bare) as repository:
        patch: bytes = repository.git(c=_BIG_IS_BINARY).first_bytes(
            DIFF_LIMIT + 1, "diff", *_PLAIN, base.commit, commit, "--"
        )
    if len(patch) <= DIFF_LIMIT:
        return patch.decode("utf-8", "surrogateescape")
    kept = patch[:DIFF_LIMIT].decode("utf-8", "surrogateescape")
    return f"{kept}\n[cut here: the diff is longer than {DIFF_LIMIT} bytes]\n"


def diff_stat(base: BaseCommit, commit: str) -> DiffStat:
    """Return how much changed from the base to `commit`; binary files count as files only."""
    with our_repository(base.bare) as repository:
        line = repository.git(c=_BIG_IS_BINARY).diff(
            *_PLAIN, "--shortstat", base.commit, commit, "--"
        )
    return DiffStat(
        files=_count(r"(\d+) files? changed", line),
        insertions=_count(r"(\d+) insertion", line),
        deletions=_count(r"(\d+) deletion", line),
    )


def tree_id(base: BaseCommit, commit: str) -> str:
    """Return the id of the tree of a commit. Equal trees hold equal files."""
    with our_repository(base.bare) as repository:
        return str(repository.git.rev_parse("--verify", f"{commit}^{{tree}}"))


def changed_paths(base: BaseCommit, old: str, new: str) -> list[str]:
    """Return the paths of the files in which two commits differ, in order."""
    with our_repository(base.bare) as repository:
        names = repository.git.output("diff", "--name-only", "-z", "--no-renames", old, new, "--")
    return [name.decode("utf-8", "replace") for name in names.split(b"\0") if name]


class FileChange(NamedTuple):
    """A changed file: mode and blob id before and after; zeros where there is no file."""

    path: str
    before: str
    after: str


def file_changes(base: BaseCommit, commit: str) -> Iterator[FileChange]:
    """Yield every file in which `commit` differs from the base, in order; a moved file is two.

    Bytes of a path that are not UTF-8 are kept as `surrogateescape` does; GitPython's `Diff`
    would fail at them.
    """
    with our_repository(base.bare) as repository:
        raw = repository.git.output(
            "diff", "--raw", "-z", "--no-abbrev", "--no-renames", base.commit, commit, "--"
        )
    fields = raw.decode("utf-8", "surrogateescape").split("\0")
    for header, path in zip(fields[::2], fields[1::2], strict=False):
        old_mode, new_mode, old, new, _ = header.removeprefix(":").split(" ")
        yield FileChange(path, f"{old_mode} {old}", f"{new_mode} {new}")


def file_diff(base: BaseCommit, commit: str, path: str, *, limit: int) -> str:
    """Return the patch of one file as text, binary or not, with a note where it is cut.

    Of a file larger than 8 MiB it shows the first bytes, before and after.
    """
    commits = (base.commit, commit)
    with our_repository(base.bare) as repository:
        sizes = [_size(repository, one, path) for one in commits]
        if max(sizes) > _BIG:
            before, after = (_beginning(repository, one, path, limit) for one in commits)
            return f"before:\n{before}\nafter:\n{after}"
        only = ("--", f":(literal){path}")
        patch = repository.git.first_bytes(
            limit + 1, "diff", "--text", *_PLAIN, base.commit, commit, *only
        )
    return _cut_text(patch, limit)


def symlinks(base: BaseCommit, commit: str) -> dict[str, str]:
    """Return every symbolic link of a commit, path to target, without impossible ones.

    Bytes that are not UTF-8 are kept as `surrogateescape` does.
    """
    with our_repository(base.bare) as repository:
        listing = repository.git.output("ls-tree", "-r", "-z", "--full-tree", commit)
        rows = (row.partition(b"\t") for row in listing.split(b"\0"))
        links = {
            path: header.split(b" ")[2].decode()
            for header, _, path in rows
            if header.startswith(b"120000 ")
        }
        targets = {}
        for blob in set(links.values()):  # GitPython keeps one `git cat-file` running for all
            if repository.git.get_object_header(blob)[2] <= _MAX_LINK:
                targets[blob] = _text(repository.git.get_object_data(blob)[3])
    return {_text(path): targets[blob] for path, blob in links.items() if blob in targets}


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _size(repository: Repository, commit: str, path: str) -> int:
    """Return the bytes of a file in a commit; 0 if there is no such file."""
    row = repository.git.output(
        "ls-tree", "-l", "-z", "--full-tree", commit, "--", f":(literal){path}"
    )
    size = row.partition(b"\t")[0].split()[-1:]
    return int(size[0]) if size and size[0].isdigit() else 0


def _beginning(repository: Repository, commit: str, path: str, limit: int) -> str:
    if not _size(repository, commit, path):
        return "(nothing)"
    content = repository.git.first_bytes(limit + 1, "cat-file", "blob", f"{commit}:{path}")
    return _cut_text(content, limit)


def _cut_text(content: bytes, limit: int) -> str:
    text = content[:limit].decode("utf-8", "replace")
    if len(content) > limit:
        text += f"\n[… cut after {limit:,} bytes: what follows is not shown here …]"
    return text


def _count(pattern: str, line: str) -> int:
    found = re.search(pattern, line)
    return int(found[1]) if found else 0
