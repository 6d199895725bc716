"""Tags: those that name commits of a base's history go along into the sandbox.

They travel inwards only: no tag comes out of a sandbox, and none is published or pushed. A bare
repository of ours holds the tags of its source as objects and as one file in the format of
`packed-refs`, not as refs: ten thousand refs would be ten thousand files, and a name could be
taken for something else.
"""

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from sandbox.git import USERS, git

_FILE = "harness-tags"
_HEADER = b"# pack-refs with: peeled fully-peeled sorted \n"
_LINE = re.compile(rb"([0-9a-f]{40,64})\t(refs/tags/\S+)")
_COMPONENT = rb"(?!\.)(?:(?!\.\.|@\{)[^\x00-\x20\x7f~^:?*\[\\/])+(?<!\.lock)(?<!\.)"
WELL_FORMED = re.compile(rb"refs/tags(?:/" + _COMPONENT + rb")+")
_MISLEADING = re.compile(
    rb"refs/tags/((refs|heads|tags|remotes|origin|harness)(/.*)?|([A-Z_]*_)?HEAD|@|stash"
    rb"|harness-start|main|master)"
)
"""Names that git, or a command of ours, could take for a branch or for HEAD."""


def fetch_tags(bare: Path, address: str, reading: tuple[str, ...]) -> tuple[str, ...]:
    """Bring what is known of a source's tags up to date, as far as their commits are held.

    Gives a notice if tags are left out for their names.

    Raises:
        GitFailed: the source cannot be read.
    """
    listing = git(
        "ls-remote", "--quiet", "--tags", *reading, "--", address, at=Path("/"), rules=USERS
    )
    listed = {ref: target for target, ref in _LINE.findall(listing)}
    tags = [ref for ref in sorted(listed) if WELL_FORMED.fullmatch(ref)]
    misleading = {ref for ref in tags if _MISLEADING.fullmatch(ref)}
    commits = {ref: listed.get(ref + b"^{}", listed[ref]) for ref in tags if ref not in misleading}
    held = _held(bare, commits.values())
    wanted = {ref: listed[ref] for ref, commit in commits.items() if commit in held}
    if lacking := set(wanted.values()) - _held(bare, wanted.values()):
        git(
            "fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head",
            "--update-shallow", *reading, "--stdin", "--", address,
            at=bare, rules=USERS, stdin=_lines(lacking),
        )  # fmt: skip
    new = bare / f"{_FILE}.new"
    new.write_bytes(_HEADER + b"".join(wanted[ref] + b" " + ref + b"\n" for ref in wanted))
    new.replace(bare / _FILE)
    return _notices(len(misleading))


@contextmanager
def bare_view_with_tags(bare: Path, commit: str, ref: str) -> Iterator[tuple[Path, bytes]]:
    """A passing view of a bare repository: `ref` at this commit, and the tags of its history.

    Gives its path, and the tags in the format of `packed-refs`.
    """
    with TemporaryDirectory(prefix="harness-") as place:
        view = Path(place)
        git("init", "--quiet", "--bare", "--template=", at=view)
        (view / "objects/info").mkdir(exist_ok=True)
        (view / "objects/info/alternates").write_bytes(os.fsencode(bare / "objects") + b"\n")
        if (shallow := bare / "shallow").exists():
            (view / "shallow").write_bytes(shallow.read_bytes())
        packed = view / "packed-refs"
        packed.write_bytes(_HEADER + b"".join(_known(bare)))
        shape = "%(objectname) %(refname)%(if)%(*objectname)%(then)%0a^%(*objectname)%(end)"
        merged = git(
            "for-each-ref", f"--format={shape}", f"--merged={commit}", "refs/tags", at=view
        )
        packed.write_bytes(_HEADER + f"{commit} {ref}\n".encode() + merged)
        yield view, _HEADER + merged


def _known(bare: Path) -> list[bytes]:
    """The lines on the tags whose objects are there: what no ref holds is dropped in time."""
    try:
        lines = (bare / _FILE).read_bytes().splitlines(keepends=True)[1:]
    except FileNotFoundError:  # a repository that an older version made
        return []
    held = _held(bare, [line.split(b" ")[0] for line in lines])
    return [line for line in lines if line.split(b" ")[0] in held]


def _held(bare: Path, objects: Iterable[bytes]) -> set[bytes]:
    """Those of these objects that the repository has."""
    told = git("cat-file", "--batch-check=%(objectname)", at=bare, stdin=_lines(objects))
    return {line for line in told.splitlines() if not line.endswith(b" missing")}


def _lines(words: Iterable[bytes]) -> bytes:
    return b"".join(word + b"\n" for word in words)


def _notices(left_out: int) -> tuple[str, ...]:
    if not left_out:
        return ()
    tags = "1 tag is" if left_out == 1 else f"{left_out} tags are"
    return (f"{tags} not in the sandbox: git could take the name for a branch or for HEAD",)
