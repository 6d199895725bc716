"""Bundles on the host: the base on its way in, the work on its way out and not yet trusted.

The work is unpacked by `index-pack --strict`, not by `fetch`: git before 2.46 forgets
`transfer.fsckObjects` when it fetches from a bundle.
"""

import re
from contextlib import closing
from math import inf
from pathlib import Path
from typing import NamedTuple

from contracts.errors import GitFailed, WorkRefused
from sandbox.git import branch_ref, git, git_stream
from sandbox.repos import BaseCommit
from sandbox.tags import bare_view_with_tags

NEW_PATHS = 200_000
"""Files and directories that the work may hold over the base: ten trees can make a million."""

_LONG = 256
"""A listing counts as one path for each of so many bytes, if that is more."""


class BaseBundle(NamedTuple):
    """A bundle of a base and its tags, and these tags as the content of a `packed-refs` file."""

    bundle: bytes
    tags: bytes


def bundle_base(base: BaseCommit) -> BaseBundle:
    """A bundle of the base commit with its history, under `base.ref`, and with the tags in it."""
    with bare_view_with_tags(base.bare, base.commit, base.ref) as (view, tags):
        path = view / "base.bundle"
        git("bundle", "create", "--quiet", str(path), "--all", at=view)
        return BaseBundle(path.read_bytes(), tags)


def unbundle_work(bundle: bytes, base: BaseCommit, branch: str) -> str:
    """Put a bundle's HEAD into the bare repository as `branch`; gives the commit id.

    Raises:
        WorkRefused: the bundle is anything but one complete HEAD of well-formed objects,
            or has far more paths than the base.
    """
    ref = branch_ref(branch)
    header, _, pack = bundle.partition(b"\n\n")
    commit = _only_head(header)
    try:
        git("index-pack", "--stdin", "--fix-thin", "--strict", at=base.bare, stdin=pack)
        git("rev-list", "--objects", "--quiet", commit, "--not", base.commit, "--", at=base.bare)
        _check_paths(base, commit)
        git("update-ref", ref, commit, at=base.bare)
    except GitFailed as error:
        raise WorkRefused(f"the work does not verify: {error}") from error
    return commit


def _check_paths(base: BaseCommit, commit: str) -> None:
    """Refuse trees that are few objects and more paths than git can walk here."""
    if _paths(base.bare, commit, NEW_PATHS) <= NEW_PATHS:
        return
    most = NEW_PATHS + _paths(base.bare, base.commit)
    if _paths(base.bare, commit, most) > most:
        raise WorkRefused(
            f"the work holds over {NEW_PATHS} files and directories more than its base"
        )


def _paths(bare: Path, commit: str, enough: float = inf) -> int:
    """How many files and directories a commit holds; counted no further than `enough`."""
    count = size = 0
    listing = ("ls-tree", "-r", "-t", "-z", "--name-only", commit)  # -t: a tree may be empty
    with closing(git_stream(*listing, at=bare)) as pieces:
        for piece in pieces:
            count, size = count + piece.count(b"\0"), size + len(piece)
            if max(count, size // _LONG) > enough:
                break
    return max(count, size // _LONG)


def _only_head(header: bytes) -> str:
    """The commit id that a bundle's header gives for HEAD; no other ref may be there."""
    first, *lines = header[:65536].decode("ascii", "replace").split("\n")
    if first != "# v2 git bundle":  # v3 could make the bare repository a partial clone
        raise WorkRefused(f"the work is not a git bundle: it starts with {first[:20]!r}")
    refs = [line for line in lines if not line.startswith("-")]
    head = re.fullmatch(r"([0-9a-f]{40}) HEAD", refs[0]) if len(refs) == 1 else None
    if head is None:
        raise WorkRefused(f"the work must be one HEAD, the bundle holds {refs[:3]!r}")
    return head[1]
