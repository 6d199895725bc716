"""Bundles on the host: the base on its way in, the work on its way out and not yet trusted.

The work is unpacked by `index-pack --strict`, not by `fetch`: git before 2.46 forgets
`transfer.fsckObjects` when it fetches from a bundle.
"""

import re
from pathlib import Path
from tempfile import TemporaryDirectory

from contracts.errors import GitFailed, WorkRefused
from sandbox.git import branch_ref, git
from sandbox.repos import Base


def pack_base(base: Base) -> bytes:
    """A bundle of the base commit with its history, under `base.ref`."""
    with TemporaryDirectory(prefix="harness-") as place:
        path = Path(place, "base.bundle")
        git("bundle", "create", "--quiet", str(path), base.ref, at=base.bare)
        return path.read_bytes()


def unpack_work(bundle: bytes, base: Base, branch: str) -> str:
    """Put a bundle's HEAD into the bare repository as `branch`; gives the commit id.

    Raises:
        WorkRefused: the bundle is anything but one complete HEAD of well-formed objects.
    """
    ref = branch_ref(branch)
    header, _, pack = bundle.partition(b"\n\n")
    commit = _only_head(header)
    try:
        git("index-pack", "--stdin", "--fix-thin", "--strict", at=base.bare, stdin=pack)
        git("rev-list", "--objects", "--quiet", commit, "--not", base.commit, "--", at=base.bare)
        git("update-ref", ref, commit, at=base.bare)
    except GitFailed as error:
        raise WorkRefused(f"the work does not verify: {error}") from error
    return commit


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
