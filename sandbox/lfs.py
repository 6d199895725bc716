"""Files of git LFS: what the user's clone has of them goes into the sandbox.

For a repository at a URL, the user's own git-lfs fetches them on the host. Inside, a filter of git
puts the content in the place of the pointer at each checkout, and takes it for the pointer again
when it is committed unchanged.
"""

import hashlib
import os
import re
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from io import BytesIO
from pathlib import Path

from contracts.errors import GitFailed
from contracts.sandbox import Sandbox
from sandbox.git import USERS, Repository, RuledGit

LFS_LIMIT = 512 * 1024 * 1024
"""Bytes of LFS files that go into a sandbox."""
LFS_FILTER = "sh .git/lfs/filter"

_POINTER = re.compile(
    rb"version https://git-lfs\.github\.com/spec/v1\n(?:ext-.+\n)*"
    rb"oid sha256:([0-9a-f]{64})\nsize (\d+)\n"
)
_POINTER_SIZES = range(100, 1024)
_FILTER = b"""\
file=$(mktemp)
trap 'rm -f "$file"' EXIT
cat > "$file"
case $1 in
  clean) known=.git/lfs/$(sha256sum < "$file" | cut -c -64).pointer ;;
  smudge) known=.git/lfs/$(head -c 1024 "$file" | sed -n 's/^oid sha256://p') ;;
esac
if [ -f "$known" ]; then cat "$known"; else cat "$file"; fi
"""


@dataclass(frozen=True, kw_only=True)
class LfsFile:
    """A file of git LFS, by its path in the tree, and where the user's clone has its content."""

    path: str
    oid: str
    pointer: str
    place: Path


def find_lfs_files(
    repository: Repository, commit: str, source: Path | None, address: str
) -> tuple[tuple[LfsFile, ...], tuple[str, ...]]:
    """Return the LFS files of a commit that can be had, and a notice about the others.

    They are taken from the user's clone; for a URL (no `source`) they are fetched from its
    `address` into our repository.
    """
    pointers = _pointers(repository, commit) if _uses_lfs(repository, commit) else {}
    if not pointers:
        return (), ()
    advice = "`git lfs pull` in your clone fetches them"
    if source is None:
        advice = _fetch(repository, commit, address, sum(int(one[2]) for one in pointers.values()))
    found: list[LfsFile] = []
    folder = _lfs_folder(source or Path(repository.working_dir))
    size = 0
    for path, pointer in pointers.items():
        oid, length = pointer[1].decode(), int(pointer[2])
        place = folder / oid[:2] / oid[2:4] / oid if folder else None
        if place is not None and place.is_file() and size + length <= LFS_LIMIT:
            size += length
            found.append(LfsFile(path=path, oid=oid, pointer=pointer[0].decode(), place=place))
            if source is None:
                os.utime(place)  # `remove_lfs_files` reads this time
    if len(found) == len(pointers):
        return tuple(found), ()
    missing = len(pointers) - len(found)
    return tuple(found), (
        f"{missing} of {len(pointers)} git LFS files are not fetched, the run sees their pointer "
        f"files (at most {LFS_LIMIT >> 20} MiB come along): {advice}",
    )


def remove_lfs_files(bare: Path, before: datetime) -> None:
    """Remove LFS files of one of our bare repositories that no run used since `before`."""
    for file in bare.glob("lfs/objects/*/*/*"):
        if file.stat().st_mtime < before.timestamp():
            file.unlink(missing_ok=True)


def put_lfs_files(sandbox: Sandbox, files: Collection[LfsFile]) -> None:
    """Put the content of LFS files beside the objects of the workspace's repository.

    Raises:
        SandboxLost: the sandbox is gone.
    """
    sandbox.write_file(".git/lfs/filter", _FILTER)
    for one in files:
        with suppress(FileNotFoundError):  # gone meanwhile: the pointer file stays
            with one.place.open("rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
            if found == one.oid:
                at = f".git/lfs/{one.oid}"
                sandbox.upload_files({at: one.place, f"{at}.pointer": one.pointer.encode()})


def _pointers(repository: Repository, commit: str) -> "dict[str, re.Match[bytes]]":
    """Return the pointer files of a commit by path."""
    listing = repository.git.output("ls-tree", "-r", "-l", "-z", commit).split(b"\0")
    entries = (line.partition(b"\t") for line in listing if line.startswith(b"100"))
    blobs = {os.fsdecode(path): head.split() for head, _, path in entries}
    small = {p: h[2] for p, h in blobs.items() if h[3].isdigit() and int(h[3]) in _POINTER_SIZES}
    asked = b"".join(blob + b"\n" for blob in small.values())
    answer = BytesIO(repository.git.output("cat-file", "--batch", stdin=asked))
    found: dict[str, re.Match[bytes]] = {}
    for path in small:
        length = int(answer.readline().split()[2])
        if pointer := _POINTER.fullmatch(answer.read(length)):
            found[path] = pointer
        answer.readline()
    return found


def _fetch(repository: Repository, commit: str, address: str, size: int) -> str:
    """Fetch the LFS files of a commit from its URL into our repository; return why not, if so."""
    if size > LFS_LIMIT:
        return f"they have {size >> 20} MiB"
    is_web = address.startswith(("https://", "http://"))
    server = f"{address.rstrip('/').removesuffix('.git')}.git/info/lfs" if is_web else address
    git = RuledGit(Path(repository.working_dir), USERS)
    # Else `.lfsconfig`, a file of the repository, could send the user's credentials elsewhere.
    remote = [f"remote.origin.url={address}", f"lfs.url={server}"]
    try:
        git(c=remote).lfs("fetch", "origin", commit)
    except GitFailed as error:
        if "is not a git command" in str(error):
            return "git-lfs is not installed on this machine"
        return str(error)
    return "their server does not have them"


def _lfs_folder(source: Path) -> Path | None:
    try:
        common = str(RuledGit(source, USERS).rev_parse("--git-common-dir"))
    except GitFailed:
        return None
    return source / common / "lfs" / "objects"


def _uses_lfs(repository: Repository, commit: str) -> bool:
    try:
        only = ("--", ":(glob)**/.gitattributes")
        return bool(repository.git.output("grep", "-l", "-e", "filter=lfs", commit, *only))
    except GitFailed:
        return False
