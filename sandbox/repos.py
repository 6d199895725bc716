"""The commit that a run starts from, copied from the user's repository into a bare one of ours.

The bare repositories under `store` are kept between runs, one for each source, so that the next
run fetches only new objects.
"""

import fcntl
import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from contracts.errors import GitFailed, RepoInvalid
from sandbox.git import OURS, USERS, Repository, RuledGit, our_repository, users_repository
from sandbox.lfs import LfsFile, find_lfs_files
from sandbox.redaction import redact_url
from sandbox.sources import Source, find_source
from sandbox.submodules import absolute_remote, wanted_submodules

FindSource = Callable[[str, str | None, str | None], Source]

TAGS_FILE = "harness-tags"
"""File of a bare repository with the tags of its source, in the format of `packed-refs`.

They are not refs: ten thousand refs would be ten thousand files, and git could take the name of a
tag for a branch.
"""
PACKED_REFS = b"# pack-refs with: peeled fully-peeled sorted \n"
"""First line of a file of that format."""

_BASES = "refs/harness/base"
_MAX_DEPTH = 5
"""Levels of submodules inside submodules."""
_LISTED_TAG = re.compile(rb"([0-9a-f]{40,64})\t(refs/tags/\S+)")
_COMPONENT = rb"(?!\.)(?:(?!\.\.|@\{)[^\x00-\x20\x7f~^:?*\[\\/])+(?<!\.lock)(?<!\.)"
WELL_FORMED_TAG = re.compile(rb"refs/tags(?:/" + _COMPONENT + rb")+")
_MISLEADING_TAG = re.compile(
    rb"refs/tags/((refs|heads|tags|remotes|origin|harness)(/.*)?|([A-Z_]*_)?HEAD|@|stash"
    rb"|harness-start|main|master)"
)
"""Tag names that git, or one of our commands, could take for a branch or for HEAD."""


@dataclass(frozen=True, kw_only=True)
class BaseCommit:
    """The commit a run starts from. `bare` holds it under the ref `refs/harness/base/<commit>`.

    `source` is for people: a path, or a URL without credentials; `address` is the argument for
    git. `path` is None for a URL. `forked_at` is the merge base with the main branch, or with the
    commit that the run is compared with. `notices` name what the run will not see.
    """

    name: str
    source: str
    path: Path | None
    bare: Path
    commit: str
    ref_name: str | None
    forked_at: str | None = None
    notices: tuple[str, ...] = ()
    way_out: bool = True
    """False if commands of the run reach no host, because the commit tracks secrets."""
    submodules: tuple["Submodule", ...] = ()
    lfs: tuple[LfsFile, ...] = ()
    address: str = field(repr=False)

    @property
    def ref(self) -> str:
        return f"{_BASES}/{self.commit}"


@dataclass(frozen=True, kw_only=True)
class Submodule:
    """A submodule's commit, in a bare repository of ours like a base, and its path in the tree."""

    path: str
    bare: Path
    commit: str

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
    full commit id. `main` (default: the main branch) is what the commit is compared with. Several
    runs may fetch from the same source at once. `find` may be a cached `find_source`.

    Raises:
        RepoInvalid: no repository there, nothing committed, no such ref, or git cannot read it;
            `main` has no commit in common with it.
    """
    source = find(repo, ref, main)
    bare, tag_notices = _fetch(source, store)
    with our_repository(bare) as repository:
        forked_at = source.forked_at or _forked_at(repository, source)
        lfs, missing = find_lfs_files(repository, source.commit, source.path, source.address)
    submodules, absent = _fetch_submodules(bare, source, store)
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
        notices=(*source.notices, *missing, *_cut_history(bare), *absent, *tag_notices),
        submodules=submodules,
        lfs=lfs,
        address=source.address,
    )


def fetch_newer_base(base: BaseCommit, address: str, branch: str) -> BaseCommit:
    """Copy the newest commit of a branch of the remote at `address` to where the base is.

    Return the base with that commit; its submodules and tags stay those of the old one.

    Raises:
        RepoInvalid: there is no such branch, or git cannot read it.
        GitFailed: git cannot copy it.
    """
    source = find_source(absolute_remote(address, base.path or Path("/")), branch)
    with _locked(base.bare.parent, base.bare.name):
        _fetch_commit(base.bare, source, source.commit)
    with our_repository(base.bare) as repository:
        lfs, _ = find_lfs_files(repository, source.commit, base.path, source.address)
    return replace(base, commit=source.commit, lfs=lfs)


def unused_bases(bare: Path, before: datetime) -> list[str]:
    """Return the base commits in one of our bare repositories that no run used since `before`."""
    with our_repository(bare) as repository:
        commits = repository.git.for_each_ref("--format=%(objectname)", _BASES).splitlines()
    return [one for one in commits if _last_used(bare / _BASES / one) < before.timestamp()]


def remove_base(bare: Path, commit: str) -> None:
    """Remove the ref of a base commit. The next run that starts there fetches it again."""
    with our_repository(bare) as repository:
        repository.git.update_ref("-d", f"{_BASES}/{commit}")


def _last_used(ref: Path) -> float:
    """Return when a run last started at this ref; 0 for a ref that git has packed."""
    try:
        return ref.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _fetch(source: Source, store: Path) -> tuple[Path, tuple[str, ...]]:
    """Return the bare repository of a source with its commits, history and tags, and notices."""
    # Two sources may have the same last component.
    digest = hashlib.sha256(source.address.encode("utf-8", "surrogateescape")).hexdigest()[:12]
    bare = store / f"{_name(source.address)}-{digest}.git"
    with _locked(store, bare.name):
        for commit in filter(None, (source.commit, source.main_commit)):
            try:
                _fetch_commit(bare, source, commit)
            except GitFailed as error:
                raise RepoInvalid(
                    f"cannot copy {commit[:7]} from {redact_url(source.address)!r}: {error}"
                ) from error
        _deepen(bare, source)
        try:
            return bare, _fetch_tags(bare, source)
        except GitFailed as error:
            raise RepoInvalid(
                f"cannot copy the tags of {redact_url(source.address)!r}: {error}"
            ) from error


def _fetch_commit(bare: Path, source: Source, commit: str) -> None:
    ref = f"{_BASES}/{commit}"
    verify = ("--quiet", "--verify", f"{ref}^{{commit}}")
    if _has_commit(bare, verify):
        with suppress(FileNotFoundError):  # a packed ref
            os.utime(bare / ref)  # `unused_bases` reads this time
        return
    RuledGit(bare.parent, OURS).init("--quiet", "--bare", "--template=", "--", bare.name)
    with users_repository(bare) as repository:
        repository.git.fetch(
            "--quiet", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head",
            "--update-shallow", *_upload_pack(source), "--", source.address, f"+{commit}:{ref}",
        )  # fmt: skip
    with our_repository(bare) as repository:
        repository.git.rev_parse(*verify)


def _deepen(bare: Path, source: Source) -> None:
    """Complete the history of a shallow clone from its own origin, as far as that answers.

    The user's clone stays as it is.
    """
    shallow = bare / "shallow"
    if source.path is None or not shallow.exists():
        return
    with suppress(GitFailed), users_repository(bare) as repository:
        origin = RuledGit(source.path, USERS).config("--get", "remote.origin.url")
        repository.git.output(
            "fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head",
            "--unshallow", "--stdin", "--", absolute_remote(origin, source.path),
            stdin=shallow.read_bytes(),
        )  # fmt: skip


def _fetch_submodules(
    bare: Path, source: Source, store: Path, *, depth: int = _MAX_DEPTH
) -> tuple[tuple[Submodule, ...], tuple[str, ...]]:
    """Return the submodules of a source's commit, also those inside them, and notices."""
    found: list[Submodule] = []
    notices: list[str] = []
    for wanted in wanted_submodules(bare, source) if depth else ():
        problem = wanted.problem
        if wanted.source is not None:
            try:
                inner, _ = _fetch(wanted.source, store)
            except RepoInvalid as error:
                problem = str(error)
            else:
                found.append(Submodule(path=wanted.path, bare=inner, commit=wanted.source.commit))
                below, more = _fetch_submodules(inner, wanted.source, store, depth=depth - 1)
                found += [replace(one, path=f"{wanted.path}/{one.path}") for one in below]
                notices += more
        if problem:
            notices.append(
                f"submodule {wanted.path!r} is not fetched, its directory is empty: {problem}"
            )
    return tuple(found), tuple(notices)


def _has_commit(bare: Path, verify: tuple[str, ...]) -> bool:
    """Return whether an earlier run fetched the commit: git sets a ref when all is there."""
    if not bare.exists():
        return False
    try:
        with our_repository(bare) as repository:
            return bool(repository.git.rev_parse(*verify))
    except GitFailed:
        return False


def _forked_at(repository: Repository, source: Source) -> str | None:
    if source.main_commit is None:
        return None
    try:
        found = repository.merge_base(source.commit, source.main_commit)
    except GitFailed:
        return None
    return found[0].hexsha if found else None


def _upload_pack(source: Source) -> tuple[str, ...]:
    # Git checks safe.directory for the path, which `find_source` passed, and once more for
    # the `.git` in it, which users do not list there.
    return ("--upload-pack=git -c safe.directory=* upload-pack",) if source.path else ()


def _fetch_tags(bare: Path, source: Source) -> tuple[str, ...]:
    """Update our copy of a source's tags, as far as our repository has their commits.

    Return a notice if tags are omitted because of their names.
    """
    upload_pack = _upload_pack(source)
    listing = RuledGit(Path("/"), USERS).output(
        "ls-remote", "--quiet", "--tags", *upload_pack, "--", source.address
    )
    listed = {ref: target for target, ref in _LISTED_TAG.findall(listing)}
    tags = [ref for ref in sorted(listed) if WELL_FORMED_TAG.fullmatch(ref)]
    misleading = {ref for ref in tags if _MISLEADING_TAG.fullmatch(ref)}
    commits = {ref: listed.get(ref + b"^{}", listed[ref]) for ref in tags if ref not in misleading}
    with our_repository(bare) as ours, users_repository(bare) as users:
        present = present_objects(ours, commits.values())
        wanted = {ref: listed[ref] for ref, commit in commits.items() if commit in present}
        if missing := set(wanted.values()) - present_objects(ours, wanted.values()):
            users.git.output(
                "fetch", "--quiet", "--no-tags", "--no-recurse-submodules",
                "--no-write-fetch-head", "--update-shallow", *upload_pack,
                "--stdin", "--", source.address,
                stdin=_lines(missing),
            )  # fmt: skip
    new = bare / f"{TAGS_FILE}.new"
    new.write_bytes(PACKED_REFS + b"".join(wanted[ref] + b" " + ref + b"\n" for ref in wanted))
    new.replace(bare / TAGS_FILE)
    if not misleading:
        return ()
    count = "1 tag is" if len(misleading) == 1 else f"{len(misleading)} tags are"
    return (f"{count} not in the sandbox: git could take the name for a branch or for HEAD",)


def present_objects(repository: Repository, objects: Iterable[bytes]) -> set[bytes]:
    """Return those of these object ids that the repository has."""
    listing = repository.git.output(
        "cat-file", "--batch-check=%(objectname)", stdin=_lines(objects)
    )
    return {line for line in listing.splitlines() if not line.endswith(b" missing")}


def _lines(words: Iterable[bytes]) -> bytes:
    return b"".join(word + b"\n" for word in words)


@contextmanager
def _locked(store: Path, name: str) -> Iterator[None]:
    store.mkdir(parents=True, exist_ok=True)
    # Of two concurrent `git fetch`, one would fail at the lock of a ref or of `shallow`.
    with (store / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _name(address: str) -> str:
    """Return a short name that is safe in a file name: the repository's own, without `.git`."""
    last = re.split(r"[/:]", address.rstrip("/").removesuffix("/.git"))[-1].removesuffix(".git")
    return re.sub(r"[^\w.-]", "-", last).lstrip(".-")[:64] or "repo"


def _cut_history(bare: Path) -> Iterator[str]:
    if (bare / "shallow").exists():
        yield "the source is a shallow clone: the run does not see its whole history"
