"""The files of a commit, read on the host out of our bare repository: nothing is checked out."""

import os
import re
from collections.abc import Callable
from typing import NamedTuple

from sandbox.git import OURS, RuledGit
from sandbox.repos import BaseCommit

_ENTRY = re.compile(rb"(\d{6}) \w+ ([0-9a-f]+) +(\d+|-)\t(.+)", re.DOTALL)
_REGULAR = (b"100644", b"100755")


class CommitFiles(NamedTuple):
    """Paths of a commit's regular files, and a function that returns the content of one."""

    paths: frozenset[str]
    read: Callable[[str], bytes]


def commit_files(base: BaseCommit, limit: int) -> CommitFiles:
    """Return the regular files of the base commit with at most `limit` bytes.

    Raises:
        GitFailed: our repository cannot be read.
    """
    git = RuledGit(base.bare, OURS)
    listing = git.output("ls-tree", "-r", "-l", "-z", base.commit)
    entries = (_ENTRY.fullmatch(line) for line in listing.split(b"\0") if line)
    blobs = {
        os.fsdecode(found[4]): found[2].decode()
        for found in entries
        if found and found[1] in _REGULAR and int(found[3]) <= limit
    }
    return CommitFiles(
        frozenset(blobs),
        lambda path: git.output("cat-file", "blob", blobs[path]) if path in blobs else b"",
    )
