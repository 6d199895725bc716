"""Tags of commits in a base's history, which go into the sandbox and never out of it.

A bare repository of ours holds the tags of its source as objects and as one file in the format of
`packed-refs`, not as refs: ten thousand refs would be ten thousand files, and git could take the
name of a tag for a branch.
"""

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from sandbox.git import OURS, USERS, Repository, RuledGit, our_repository, users_repository

_FILE = "harness-tags"
_HEADER = b"# pack-refs with: peeled fully-peeled sorted \n"
_LINE = re.compile(rb"([0-9a-f]{40,64})\t(refs/tags/\S+)")
_COMPONENT = rb"(?!\.)(?:(?!\.\.|@\{)[^\x00-\x20\x7f~^:?*\[\\/])+(?<!\.lock)(?<!\.)"
WELL_FORMED = re.compile(rb"refs/tags(?:/" + _COMPONENT + rb")+")
_MISLEADING = re.compile(
    rb"refs/tags/((refs|heads|tags|remotes|origin|harness)(/.*)?|([A-Z_]*_)?HEAD|@|stash"
    rb"|harness-start|main|master)"
)
"""Tag names that git, or one of our commands, could take for a branch or for HEAD."""


def fetch_tags(bare: Path, address: str, upload_pack: tuple[str, ...]) -> tuple[str, ...]:
    """Update our copy of a source's tags, as far as our repository has their commits.

    Returns a notice if tags are omitted because of their names.

    Raises:
        GitFailed: the source cannot be read.
    """
    listing = RuledGit(Path("/"), USERS).output(
        "ls-remote", "--quiet", "--tags", *upload_pack, "--", address
    )
    listed = {ref: target for target, ref in _LINE.findall(listing)}
    tags = [ref for ref in sorted(listed) if WELL_FORMED.fullmatch(ref)]
    misleading = {ref for ref in tags if _MISLEADING.fullmatch(ref)}
    commits = {ref: listed.get(ref + b"^{}", listed[ref]) for ref in tags if ref not in misleading}
    with our_repository(bare) as ours, users_repository(bare) as users:
        present = _present(ours, commits.values())
        wanted = {ref: listed[ref] for ref, commit in commits.items() if commit in present}
        if missing := set(wanted.values()) - _present(ours, wanted.values()):
            users.git.output(
                "fetch", "--quiet", "--no-tags", "--no-recurse-submodules",
                "--no-write-fetch-head", "--update-shallow", *upload_pack,
                "--stdin", "--", address,
                stdin=_lines(missing),
            )  # fmt: skip
    new = bare / f"{_FILE}.new"
    new.write_bytes(_HEADER + b"".join(wanted[ref] + b" " + ref + b"\n" for ref in wanted))
    new.replace(bare / _FILE)
    return _notices(len(misleading))


@contextmanager
def bare_view_with_tags(bare: Path, commit: str, ref: str) -> Iterator[tuple[Path, bytes]]:
    """A temporary repository with `ref` at this commit and the tags of its history.

    Gives its path, and the tags in the format of `packed-refs`. It borrows the objects of `bare`.
    """
    with TemporaryDirectory(prefix="harness-") as folder:
        view = Path(folder)
        RuledGit(view, OURS).init("--quiet", "--bare", "--template=")
        (view / "objects/info").mkdir(exist_ok=True)
        (view / "objects/info/alternates").write_bytes(os.fsencode(bare / "objects") + b"\n")
        if (shallow := bare / "shallow").exists():
            (view / "shallow").write_bytes(shallow.read_bytes())
        packed = view / "packed-refs"
        packed.write_bytes(_HEADER + b"".join(_usable_tags(bare)))
        line = "%(objectname) %(refname)%(if)%(*objectname)%(then)%0a^%(*objectname)%(end)"
        with our_repository(view) as repository:
            merged = repository.git.output(
                "for-each-ref", f"--format={line}", f"--merged={commit}", "refs/tags"
            )
        packed.write_bytes(_HEADER + f"{commit} {ref}\n".encode() + merged)
        yield view, _HEADER + merged


def _usable_tags(bare: Path) -> list[bytes]:
    """Return the lines on the tags whose objects exist: `git gc` drops them, as no ref does."""
    try:
        lines = (bare / _FILE).read_bytes().splitlines(keepends=True)[1:]
    except FileNotFoundError:  # a repository that an older version made
        return []
    with our_repository(bare) as repository:
        present = _present(repository, [line.split(b" ")[0] for line in lines])
    return [line for line in lines if line.split(b" ")[0] in present]


def _present(repository: Repository, objects: Iterable[bytes]) -> set[bytes]:
    """Return those of these objects that the repository has."""
    listing = repository.git.output(
        "cat-file", "--batch-check=%(objectname)", stdin=_lines(objects)
    )
    return {line for line in listing.splitlines() if not line.endswith(b" missing")}


def _lines(words: Iterable[bytes]) -> bytes:
    return b"".join(word + b"\n" for word in words)


def _notices(omitted: int) -> tuple[str, ...]:
    if not omitted:
        return ()
    tags = "1 tag is" if omitted == 1 else f"{omitted} tags are"
    return (f"{tags} not in the sandbox: git could take the name for a branch or for HEAD",)
