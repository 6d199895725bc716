"""The symbolic links of the commit that a run starts from."""

from sandbox.git import git
from sandbox.repos import BaseCommit

_LINK = b"120000 "
_LONGEST = 4_096
"""Bytes; Linux makes no link that says more, whatever a repository claims."""


def symlinks(base: BaseCommit) -> dict[str, str]:
    """Every symbolic link of the base, from its path to what it says.

    Bytes that are not UTF-8 are kept as `surrogateescape` does.
    """
    rows = git("ls-tree", "-r", "-z", "--full-tree", base.commit, at=base.bare).split(b"\0")
    blobs = {
        path: about.split(b" ")[2]
        for about, _, path in (row.partition(b"\t") for row in rows if row.startswith(_LINK))
    }
    said = _contents(base, sorted(set(blobs.values())))
    return {_text(path): said[blob] for path, blob in blobs.items() if blob in said}


def _contents(base: BaseCommit, blobs: list[bytes]) -> dict[bytes, str]:
    """What each of these blobs holds, without those that are too long for a link."""
    if not blobs:
        return {}
    asked = b"".join(blob + b"\n" for blob in blobs)
    sizes = git(
        "cat-file", "--batch-check=%(objectname) %(objectsize)", at=base.bare, stdin=asked
    ).split(b"\n")
    short = [name for name, _, size in (row.partition(b" ") for row in sizes) if _fits(size)]
    asked = b"".join(blob + b"\n" for blob in short)
    left = git("cat-file", "--batch=%(objectname) %(objectsize)", at=base.bare, stdin=asked)
    found, at = {}, 0
    while at < len(left):
        end = left.index(b"\n", at)
        name, _, size = left[at:end].partition(b" ")
        found[name] = _text(left[end + 1 : end + 1 + int(size)])
        at = end + 1 + int(size) + 1
    return found


def _fits(size: bytes) -> bool:
    return size.isdigit() and int(size) <= _LONGEST


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")
