"""Where a run starts: one commit of the user's repository, copied into a bare one of ours.

The bare repositories under `store` are kept between runs, one for each source, so the next
run fetches only what is new.
"""

import fcntl
import hashlib
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from contracts.errors import GitFailed, RepoInvalid
from sandbox.git import USERS, git, git_text, redact_url
from sandbox.sources import Source, find_source
from sandbox.tags import fetch_tags

FindSource = Callable[[str, str | None, str | None], Source]

_BASES = "refs/harness/base"
_CHECKED = ("rev-parse", "--quiet", "--verify")


@dataclass(frozen=True, kw_only=True)
class BaseCommit:
    """The commit a run starts from. `bare` holds it under the ref `refs/harness/base/<commit>`.

    `source` is for people: a path, or a URL without credentials; `address` is what git is
    given. `path` is None for a URL. `forked_at` is where the commit left the main branch, or
    what it is to be compared with.
    `notices` say what the run will not see.
    """

    name: str
    source: str
    path: Path | None
    bare: Path
    commit: str
    ref_name: str | None
    forked_at: str | None = None
    notices: tuple[str, ...] = ()
    address: str = field(repr=False)

    @property
    def ref(self) -> str:
        return f"{_BASES}/{self.commit}"


def fetch_base(
    repo: str,
    ref: str | None = None,
    main: str | None = None,
    *,
    store: Path,
    find: FindSource = find_source,
) -> BaseCommit:
    """Copy the commit that `ref` names (default: HEAD) out of a local path or a URL.

    A local `ref` is anything git takes for a commit; at a URL it is a branch, a tag or a
    full commit id. `main` (default: the main branch) is what it is to be compared with. Several
    runs may open the same source at once. A caller who has looked for the source already may say
    so by `find`.

    Raises:
        RepoInvalid: no repository there, nothing committed, no such ref, or git cannot read it;
            `main` has no commit in common with it.
    """
    source = find(repo, ref, main)
    bare, left_out = _fetch(source, store)
    forked_at = source.forked_at or _forked_at(bare, source)
    if main is not None and forked_at is None:
        raise RepoInvalid(f"{main!r} has no commit in common with {ref or 'HEAD'!r}")
    return BaseCommit(
        name=_name(source.address),
        source=redact_url(source.address),
        path=source.path,
        bare=bare,
        commit=source.commit,
        ref_name=source.ref_name,
        forked_at=forked_at,
        notices=(*source.notices, *_not_fetched(bare, source.commit), *left_out),
        address=source.address,
    )


def unused_bases(bare: Path, before: datetime) -> list[str]:
    """The commits in a bare repository of ours that no run was begun at since this moment."""
    commits = git_text("for-each-ref", "--format=%(objectname)", _BASES, at=bare).splitlines()
    return [one for one in commits if _opened(bare / _BASES / one) < before.timestamp()]


def remove_base(bare: Path, commit: str) -> None:
    """Hold this commit no more; another run that begins at it fetches it again."""
    git("update-ref", "-d", f"{_BASES}/{commit}", at=bare)


def _opened(ref: Path) -> float:
    """When a run was begun there last; of one that git has packed nobody knows: long ago."""
    try:
        return ref.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _fetch(source: Source, store: Path) -> tuple[Path, tuple[str, ...]]:
    """The bare repository of this source, holding its commits with their history and tags.

    Gives notices too, on tags that were left out.
    """
    digest = hashlib.sha256(source.address.encode("utf-8", "surrogateescape")).hexdigest()[:12]
    bare = store / f"{_name(source.address)}-{digest}.git"
    with _locked(store, bare.name):
        for commit in filter(None, (source.commit, source.main_commit)):
            try:
                _hold(bare, source, commit)
            except GitFailed as error:
                raise RepoInvalid(
                    f"cannot copy {commit[:7]} from {redact_url(source.address)!r}: {error}"
                ) from error
        try:
            return bare, fetch_tags(bare, source.address, _reading(source))
        except GitFailed as error:
            raise RepoInvalid(
                f"cannot copy the tags of {redact_url(source.address)!r}: {error}"
            ) from error


def _hold(bare: Path, source: Source, commit: str) -> None:
    ref = f"{_BASES}/{commit}"
    if _holds(bare, ref):
        with suppress(FileNotFoundError):  # it stands among the packed ones
            os.utime(bare / ref)  # else it would seem unused since it was fetched
        return
    git("init", "--quiet", "--bare", "--template=", "--", bare.name, at=bare.parent)
    git(
        "fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head",
        "--update-shallow", *_reading(source), "--", source.address, f"+{commit}:{ref}",
        at=bare, rules=USERS,
    )  # fmt: skip
    git(*_CHECKED, f"{ref}^{{commit}}", at=bare)


def _forked_at(bare: Path, source: Source) -> str | None:
    """Where the commit of a URL left the main branch there."""
    if source.main_commit is None:
        return None
    try:
        return git_text("merge-base", source.commit, source.main_commit, at=bare)
    except GitFailed:
        return None


def _holds(bare: Path, ref: str) -> bool:
    """Whether an earlier run fetched the commit: git sets a ref when all is there."""
    try:
        return bare.exists() and bool(git(*_CHECKED, f"{ref}^{{commit}}", at=bare))
    except GitFailed:
        return False


def _reading(source: Source) -> tuple[str, ...]:
    # Git asks for trust in a path once for the path, as `find_source` saw, and once more for
    # the `.git` in it, which nobody has thought of adding to their safe.directory.
    return ("--upload-pack=git -c safe.directory=* upload-pack",) if source.path else ()


@contextmanager
def _locked(store: Path, name: str) -> Iterator[None]:
    store.mkdir(parents=True, exist_ok=True)
    with (store / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _name(address: str) -> str:
    """A short name that is safe in a file name: the repository's own, without `.git`."""
    last = re.split(r"[/:]", address.rstrip("/").removesuffix("/.git"))[-1].removesuffix(".git")
    return re.sub(r"[^\w.-]", "-", last).lstrip(".-")[:64] or "repo"


def _not_fetched(bare: Path, commit: str) -> tuple[str, ...]:
    """What the commit points to without holding it."""
    entries = git("ls-tree", "-r", "-z", commit, at=bare).split(b"\0")
    submodules = sum(entry.startswith(b"160000 ") for entry in entries)
    attributes = any(re.search(rb"[\t/]\.gitattributes$", entry) for entry in entries)
    found = []
    if submodules:
        count = "1 submodule is" if submodules == 1 else f"{submodules} submodules are"
        found.append(f"{count} not fetched: the run sees empty directories there")
    if attributes and _uses_lfs(bare, commit):
        found.append("git LFS files are not fetched: the run sees their pointer files only")
    if (bare / "shallow").exists():
        found.append("the source is a shallow clone: the run does not see its whole history")
    return tuple(found)


def _uses_lfs(bare: Path, commit: str) -> bool:
    attributes = ":(glob)**/.gitattributes"
    try:
        return bool(git("grep", "-l", "-e", "filter=lfs", commit, "--", attributes, at=bare))
    except GitFailed:
        return False
