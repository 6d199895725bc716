"""The repository that the user named, a path or a URL with a ref, resolved to one commit.

Nothing here writes to the user's repository.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from contracts.errors import GitFailed, RepoInvalid
from contracts.files import existing_path
from sandbox.git import USERS, Repository, RuledGit, users_repository
from sandbox.redaction import redact_url

_URL = re.compile(r"(?:https?|ssh|file)://[^-].*|[\w.-]+@[\w.-]+:[^-].*")
_MAIN_REFS = ("refs/remotes/origin/HEAD", "refs/heads/main", "refs/heads/master")
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, kw_only=True)
class Source:
    """A commit and the address that git fetches it from. `path` is None for a URL.

    `forked_at` is the merge base of the commit and the main branch, possibly the commit itself.
    For a URL it takes a copy to find that, so it is None and `main_commit` is the tip to
    compare with.
    """

    address: str
    path: Path | None
    commit: str
    ref_name: str | None
    forked_at: str | None = None
    main_commit: str | None = None
    notices: tuple[str, ...] = ()


def find_source(repo: str, ref: str | None, main: str | None = None) -> Source:
    """Return the commit that `ref` (default: HEAD) names at a local path or a URL.

    `main` is the branch, tag or commit to compare it with (default: the usual main branch).

    Raises:
        RepoInvalid: no repository there, nothing committed, no such ref, or git cannot read it.
    """
    for name in (ref, main):
        # A name that starts with `-` would be an option of git, such as --upload-pack=COMMAND.
        if name is not None and (not name.strip() or name.startswith("-") or "\0" in name):
            raise RepoInvalid(f"{name!r} is not a ref: name a branch, a tag or a commit")
    if _URL.fullmatch(repo):
        return _source_at_url(repo, ref, main)
    if "://" in repo or "::" in repo:  # `ext::sh -c …` is a transport that runs a command
        raise RepoInvalid(
            f"{redact_url(repo)!r} is not a URL Harness clones: use https, ssh or file, or a path"
        )
    return _source_at_path(repo, ref, main)


def _source_at_path(path: str, ref: str | None, main: str | None) -> Source:
    with _open_top_directory(path) as repository:
        commit = _resolve(repository, ref)
        ref_name = _ref_name(repository, ref or "HEAD")
        main_refs = (_resolve(repository, main),) if main else _MAIN_REFS
        return Source(
            address=str(repository.working_dir),
            path=Path(repository.working_dir),
            commit=commit,
            ref_name=ref_name,
            forked_at=_merge_base(repository, commit, main_refs),
            notices=(
                *_uncommitted_changes(repository, f"{ref or 'HEAD'} ({commit[:7]})"),
                *_detached_head(ref_name, ref, commit),
            ),
        )


def _open_top_directory(address: str) -> Repository:
    # An empty address would be the current directory.
    path = existing_path(address) if address.strip() else None
    if path is None or not path.is_dir():
        raise RepoInvalid(f"no repository at {address[:200]!r}: there is no such directory")
    try:
        prefix = RuledGit(path, USERS).rev_parse("--show-prefix")
        if not prefix:
            return users_repository(path)
    except GitFailed as error:
        raise RepoInvalid(_why_unreadable(path, str(error))) from error
    raise RepoInvalid(
        f"{address!r} is a directory inside a git repository, not the repository: "
        f"give its top directory, {str(path).removesuffix(prefix.rstrip('/')).rstrip('/')!r}"
    )


def _why_unreadable(path: Path, reason: str) -> str:
    if "safe.directory" in reason or "dubious ownership" in reason:
        return (
            f"{str(path)!r} belongs to another user and git refuses to read it; if you trust it: "
            f"git config --global --add safe.directory {path}"
        )
    if "not a git repository" in reason:
        return f"{str(path)!r} is not a git repository: run git init and commit there first"
    return f"{str(path)!r} cannot be read: {reason}"


def _resolve(repository: Repository, ref: str | None) -> str:
    """Return the commit id of whatever git takes for a commit; GitPython knows fewer forms."""
    path = str(repository.working_dir)
    try:
        commit = repository.git.rev_parse(
            "--verify", "--end-of-options", f"{ref or 'HEAD'}^{{commit}}"
        )
    except GitFailed as error:
        if ref is None:
            raise RepoInvalid(_why_no_head(repository)) from error
        branches = repository.git.for_each_ref(
            "--count=8", "--format=%(refname:short)", "refs/heads"
        )
        raise RepoInvalid(
            f"no branch, tag or commit {ref!r} in {path!r}; "
            f"known branches: {', '.join(branches.split()) or 'none'}"
        ) from error
    if re.fullmatch(r"[0-9a-f]{64}", commit):
        raise RepoInvalid(f"{path!r} uses SHA-256 object ids: Harness reads SHA-1 repositories")
    if not _COMMIT.fullmatch(commit):
        raise RepoInvalid(f"{ref!r} is not one commit: name a branch, a tag or a commit")
    return str(commit)


def _why_no_head(repository: Repository) -> str:
    path = str(repository.working_dir)
    try:
        repository.git.rev_parse("--verify", "HEAD")
    except GitFailed:
        return f"{path!r} has no commits yet: commit something first"
    return f"{path!r} is damaged: git cannot read the commit of HEAD. Run git fsck there"


def _ref_name(repository: Repository, ref: str) -> str | None:
    """Return the short name of `ref`; None for a commit id, so also for a detached HEAD."""
    name = str(repository.git.rev_parse("--abbrev-ref", ref))
    return None if name in ("", "HEAD") else name


def _merge_base(repository: Repository, commit: str, refs: tuple[str, ...]) -> str | None:
    """Return the merge base with the first of these refs that has a commit in common."""
    for ref in refs:
        with suppress(GitFailed):
            if found := repository.merge_base(commit, ref):
                return found[0].hexsha
    return None


def _uncommitted_changes(repository: Repository, start: str) -> Iterator[str]:
    if repository.bare:
        return
    status = repository.git.output(
        "status", "--porcelain", "-z", "--no-renames", "--ignore-submodules=all"
    )
    if changed := status.count(b"\0"):
        files = "1 file is" if changed == 1 else f"{changed} files are"
        yield (
            f"{files} changed and not committed: the run starts from {start} "
            f"and does not see {'it' if changed == 1 else 'them'}"
        )


def _detached_head(ref_name: str | None, ref: str | None, commit: str) -> Iterator[str]:
    if ref is None and ref_name is None:
        yield f"HEAD is detached: the run starts from {commit[:7]}, which is on no branch"


def _source_at_url(url: str, ref: str | None, main: str | None) -> Source:
    commits = _commits_by_ref(url)
    commit, is_ref = _resolve_at_url(url, commits, ref or "HEAD")
    main_commit = commits.get("HEAD") if main is None else _resolve_at_url(url, commits, main)[0]
    ref_name = ref if is_ref else None
    return Source(address=url, path=None, commit=commit, ref_name=ref_name, main_commit=main_commit)


def _resolve_at_url(url: str, commits: dict[str, str], name: str) -> tuple[str, bool]:
    """Return the commit that a name stands for, and whether a ref there has that name."""
    for ref in (f"refs/heads/{name}", f"refs/tags/{name}^{{}}", f"refs/tags/{name}", name):
        if ref in commits:
            return commits[ref], True
    if _COMMIT.fullmatch(name):
        return name, False
    raise RepoInvalid(f"no branch, tag or full commit id {name!r} at {redact_url(url)!r}")


def _commits_by_ref(url: str) -> dict[str, str]:
    try:
        listing = RuledGit(Path("/"), USERS).output("ls-remote", "--", url)
    except GitFailed as error:
        raise RepoInvalid(f"cannot read {redact_url(url)!r}: {error}") from error
    lines = listing.decode("utf-8", "replace").splitlines()
    if not lines:
        raise RepoInvalid(f"{redact_url(url)!r} has no commits yet: push something first")
    return {ref: commit for commit, ref in (line.split("\t") for line in lines)}
