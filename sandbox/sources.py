"""What the user named: a path or a URL with a ref, checked and turned into one commit.

Nothing here writes to the user's repository.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from contracts.errors import GitFailed, RepoInvalid
from contracts.files import existing_path
from sandbox.git import USERS, git, git_text, redact_url

_URL = re.compile(r"(?:https?|ssh|file)://[^-].*|[\w.-]+@[\w.-]+:[^-].*")
_MAIN = tuple(f"refs/{place}" for place in ("remotes/origin/HEAD", "heads/main", "heads/master"))
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


@dataclass(frozen=True, kw_only=True)
class Source:
    """A commit and the address git finds it at. `path` is None for a URL.

    `forked_at` is where the commit left the main branch, which may be the commit itself; at a
    URL nobody knows without a copy, and `main` is the commit to compare it with.
    """

    address: str
    path: Path | None
    commit: str
    ref_name: str | None
    forked_at: str | None = None
    main_commit: str | None = None
    notices: tuple[str, ...] = ()


def find_source(repo: str, ref: str | None, main: str | None = None) -> Source:
    """The commit that `ref` (default: HEAD) names at a local path or a URL.

    `main` is the branch, tag or commit to compare it with (default: the usual main branch).

    Raises:
        RepoInvalid: no repository there, nothing committed, no such ref, or git cannot read it.
    """
    for given in (ref, main):
        if given is not None and (not given.strip() or given.startswith("-") or "\0" in given):
            raise RepoInvalid(f"{given!r} is not a ref: name a branch, a tag or a commit")
    if _URL.fullmatch(repo):
        return _at_url(repo, ref, main)
    if "://" in repo or "::" in repo:
        raise RepoInvalid(
            f"{redact_url(repo)!r} is not a URL Harness clones: use https, ssh or file, or a path"
        )
    return _at_path(repo, ref, main)


def _at_path(given: str, ref: str | None, main: str | None) -> Source:
    path, has_tree = _checked_path(given)
    commit = _resolve(path, ref)
    ref_name = _ref_name(path, ref or "HEAD")
    start = f"{ref or 'HEAD'} ({commit[:7]})"
    dirt = _dirt(path, start) if has_tree else ()
    return Source(
        address=str(path),
        path=path,
        commit=commit,
        ref_name=ref_name,
        forked_at=_forked_at(path, commit, (_resolve(path, main),) if main else _MAIN),
        notices=(*dirt, *_detached(ref_name, ref, commit)),
    )


def _checked_path(given: str) -> tuple[Path, bool]:
    """The real path of the repository, and whether it has a working tree."""
    path = existing_path(given) if given.strip() else None  # else it would be the current directory
    if path is None or not path.is_dir():
        raise RepoInvalid(f"no repository at {given[:200]!r}: there is no such directory")
    try:
        told = git_text("rev-parse", "--is-inside-work-tree", "--show-prefix", at=path, rules=USERS)
    except GitFailed as error:
        raise RepoInvalid(_unreadable(path, str(error))) from error
    has_tree, _, prefix = told.partition("\n")
    if prefix:
        raise RepoInvalid(
            f"{given!r} is a directory inside a git repository, not the repository: "
            f"give its top directory, {str(path).removesuffix(prefix.rstrip('/')).rstrip('/')!r}"
        )
    return path, has_tree == "true"


def _unreadable(path: Path, reason: str) -> str:
    if "safe.directory" in reason or "dubious ownership" in reason:
        return (
            f"{str(path)!r} belongs to another user and git refuses to read it; if you trust it: "
            f"git config --global --add safe.directory {path}"
        )
    if "not a git repository" in reason:
        return f"{str(path)!r} is not a git repository: run git init and commit there first"
    return f"{str(path)!r} cannot be read: {reason}"


def _resolve(path: Path, ref: str | None) -> str:
    named = ("rev-parse", "--verify", "--end-of-options")
    try:
        found = git_text(*named, f"{ref or 'HEAD'}^{{commit}}", at=path, rules=USERS)
    except GitFailed as error:
        if ref is None:
            raise RepoInvalid(_nothing_at_head(path)) from error
        raise RepoInvalid(
            f"no branch, tag or commit {ref!r} in {str(path)!r}; "
            f"known branches: {_branches(path) or 'none'}"
        ) from error
    if not _COMMIT.fullmatch(found):
        raise RepoInvalid(f"{ref!r} is not one commit: name a branch, a tag or a commit")
    return found


def _nothing_at_head(path: Path) -> str:
    try:
        git_text("rev-parse", "--verify", "HEAD", at=path, rules=USERS)
    except GitFailed:
        return f"{str(path)!r} has no commits yet: commit something first"
    return f"{str(path)!r} is damaged: the commit of HEAD cannot be read. Mend it: git fsck tells"


def _branches(path: Path) -> str:
    names = git_text(
        "for-each-ref", "--count=8", "--format=%(refname:short)", "refs/heads", at=path, rules=USERS
    )
    return ", ".join(names.split())


def _ref_name(path: Path, ref: str) -> str | None:
    """The short name behind `ref`; None for a commit id, so also for a detached HEAD."""
    name = git_text("rev-parse", "--abbrev-ref", ref, at=path, rules=USERS)
    return None if name in ("", "HEAD") else name


def _forked_at(path: Path, commit: str, mains: tuple[str, ...]) -> str | None:
    """Where the commit left the first of these that it has anything in common with."""
    for main in mains:
        with suppress(GitFailed):
            return git_text("merge-base", commit, main, at=path, rules=USERS)
    return None


def _dirt(path: Path, start: str) -> Iterator[str]:
    status = git(
        "status", "--porcelain", "-z", "--no-renames", "--ignore-submodules=all",
        at=path, rules=USERS,
    )  # fmt: skip
    if changed := status.count(b"\0"):
        files = "1 file is" if changed == 1 else f"{changed} files are"
        yield (
            f"{files} changed and not committed: the run starts from {start} "
            f"and does not see {'it' if changed == 1 else 'them'}"
        )


def _detached(ref_name: str | None, ref: str | None, commit: str) -> Iterator[str]:
    if ref is None and ref_name is None:
        yield f"HEAD is detached: the run starts from {commit[:7]}, which is on no branch"


def _at_url(url: str, ref: str | None, main: str | None) -> Source:
    listed = _listed(url)
    commit, known = _named(url, listed, ref or "HEAD")
    against = listed.get("HEAD") if main is None else _named(url, listed, main)[0]
    ref_name = ref if known else None
    return Source(address=url, path=None, commit=commit, ref_name=ref_name, main_commit=against)


def _named(url: str, listed: dict[str, str], wanted: str) -> tuple[str, bool]:
    """The commit that is wanted, and whether a ref there names it."""
    for name in (f"refs/heads/{wanted}", f"refs/tags/{wanted}^{{}}", f"refs/tags/{wanted}", wanted):
        if name in listed:
            return listed[name], True
    if _COMMIT.fullmatch(wanted):
        return wanted, False
    raise RepoInvalid(f"no branch, tag or full commit id {wanted!r} at {redact_url(url)!r}")


def _listed(url: str) -> dict[str, str]:
    """Every ref at the URL with its commit id."""
    try:
        listing = git_text("ls-remote", "--", url, at=Path("/"), rules=USERS)
    except GitFailed as error:
        raise RepoInvalid(f"cannot read {redact_url(url)!r}: {error}") from error
    if not listing:
        raise RepoInvalid(f"{redact_url(url)!r} has no commits yet: push something first")
    return {name: commit for commit, name in (line.split("\t") for line in listing.splitlines())}
