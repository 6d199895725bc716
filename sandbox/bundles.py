"""Git bundles on the host: the base commit going in, and untrusted work coming out.

The work is unpacked by `index-pack --strict`, not by `fetch`: git before 2.46 forgets
`transfer.fsckObjects` when it fetches from a bundle.
"""

import os
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from contracts.errors import GitFailed, WorkRefused
from sandbox.git import OURS, Repository, RuledGit, branch_ref, our_repository
from sandbox.repos import PACKED_REFS, TAGS_FILE, BaseCommit, Submodule, present_objects

NEW_PATHS = 200_000
"""Files and directories that the work may have more than the base: ten trees can make a million."""

_HEADER = 1 << 16
"""Bytes in which the header of a bundle has to end."""
_LONG_PATH = 256
"""Bytes of a listing that count as one path at least, so that long paths are limited too."""


class BaseBundle(NamedTuple):
    """A file with a base and its tags as a bundle; the tags also as content of `packed-refs`."""

    bundle: Path
    tags: bytes


@contextmanager
def bundle_base(base: BaseCommit | Submodule) -> Iterator[BaseBundle]:
    """Give a bundle of the base commit under `base.ref`, with its history and its tags.

    Its file is removed when the block ends.
    """
    # Made from a temporary repository that has these refs only and borrows the objects.
    with TemporaryDirectory(prefix="harness-") as folder:
        view = Path(folder)
        RuledGit(view, OURS).init("--quiet", "--bare", "--template=")
        (view / "objects/info").mkdir(exist_ok=True)
        (view / "objects/info/alternates").write_bytes(os.fsencode(base.bare / "objects") + b"\n")
        if (shallow := base.bare / "shallow").exists():
            (view / "shallow").write_bytes(shallow.read_bytes())
        (view / "packed-refs").write_bytes(PACKED_REFS + b"".join(_usable_tags(base.bare)))
        line = "%(objectname) %(refname)%(if)%(*objectname)%(then)%0a^%(*objectname)%(end)"
        with our_repository(view) as repository:
            tags = repository.git.output(
                "for-each-ref", f"--format={line}", f"--merged={base.commit}", "refs/tags"
            )
            refs = PACKED_REFS + f"{base.commit} {base.ref}\n".encode() + tags
            (view / "packed-refs").write_bytes(refs)
            repository.git.bundle("create", "--quiet", "base.bundle", "--all")
        yield BaseBundle(view / "base.bundle", PACKED_REFS + tags)


def _usable_tags(bare: Path) -> list[bytes]:
    """Return the lines on the tags whose objects exist: `git gc` drops them, as no ref does."""
    try:
        lines = (bare / TAGS_FILE).read_bytes().splitlines(keepends=True)[1:]
    except FileNotFoundError:  # a repository that an older version made
        return []
    with our_repository(bare) as repository:
        present = present_objects(repository, [line.split(b" ")[0] for line in lines])
    return [line for line in lines if line.split(b" ")[0] in present]


def unbundle_work(bundle: Path, base: BaseCommit, branch: str) -> str:
    """Store the HEAD of a bundle in the bare repository as `branch`; return the commit id.

    Raises:
        WorkRefused: the bundle is anything but one complete HEAD of well-formed objects,
            or has far more paths than the base.
    """
    ref = branch_ref(branch)
    try:
        with bundle.open("rb", buffering=0) as file, our_repository(base.bare) as repository:
            header = file.read(_HEADER).partition(b"\n\n")[0]
            commit = _only_head(header)
            file.seek(len(header) + 2)
            repository.git.output("index-pack", "--stdin", "--fix-thin", "--strict", stdin=file)
            # A pack can lack objects that its commit refers to: walk all before a ref is set.
            repository.git.rev_list("--objects", "--quiet", commit, "--not", base.commit, "--")
            _check_path_count(repository, base.commit, commit)
            repository.git.update_ref(ref, commit)
    except GitFailed as error:
        raise WorkRefused(f"the work does not verify: {error}") from error
    return commit


def _check_path_count(repository: Repository, base: str, commit: str) -> None:
    """Refuse trees that are few objects and more paths than git can walk here."""
    if _count_paths(repository, commit, NEW_PATHS) <= NEW_PATHS:
        return
    limit = NEW_PATHS + _count_paths(repository, base)
    if _count_paths(repository, commit, limit) > limit:
        raise WorkRefused(
            f"the work holds over {NEW_PATHS} files and directories more than its base"
        )


def _count_paths(repository: Repository, commit: str, limit: float = inf) -> int:
    """Return how many files and directories a commit holds; stop counting above `limit`."""
    count = size = 0
    listing = ("-r", "-t", "-z", "--name-only", commit)  # -t: a tree may be empty
    with closing(repository.git.stream("ls-tree", *listing)) as pieces:
        for piece in pieces:
            count, size = count + piece.count(b"\0"), size + len(piece)
            if max(count, size // _LONG_PATH) > limit:
                break
    return max(count, size // _LONG_PATH)


def _only_head(header: bytes) -> str:
    """Return the commit id of HEAD from a bundle's header, which may hold no other ref."""
    first, *lines = header.decode("ascii", "replace").split("\n")
    if first != "# v2 git bundle":  # v3 could make the bare repository a partial clone
        raise WorkRefused(f"the work is not a git bundle: it starts with {first[:20]!r}")
    refs = [line for line in lines if not line.startswith("-")]
    head = re.fullmatch(r"([0-9a-f]{40}) HEAD", refs[0]) if len(refs) == 1 else None
    if head is None:
        raise WorkRefused(f"the work must be one HEAD, the bundle holds {refs[:3]!r}")
    return head[1]
