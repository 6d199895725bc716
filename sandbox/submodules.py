"""Submodules of a base commit, copied on the host, since a sandbox cannot fetch them.

`.gitmodules` is a file of the repository: whoever wrote it chose the addresses. So a submodule is
taken from the user's own clone of it, or from the host that the repository itself comes from. The
user's credentials are used for no other host.
"""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urljoin, urlsplit

from contracts.errors import GitFailed
from sandbox.git import USERS, RuledGit, our_repository, users_repository
from sandbox.redaction import redact_url
from sandbox.sources import Source

MAX_SUBMODULES = 100
_SSH = re.compile(r"(?:[\w.-]+@)?([\w.-]+):(?!//)(.*)")


class WantedSubmodule(NamedTuple):
    """A submodule that a commit names: where to fetch it from, or why it cannot be fetched."""

    path: str
    source: Source | None
    problem: str = ""


def wanted_submodules(bare: Path, source: Source) -> Iterator[WantedSubmodule]:
    """Yield the submodules of the source's commit, which is in our repository `bare`."""
    with our_repository(bare) as repository:
        listing = repository.git.output("ls-tree", "-r", "-z", source.commit)
    entries = (line.partition(b"\t") for line in listing.split(b"\0"))
    links = {
        os.fsdecode(path): head.split()[2].decode()
        for head, _, path in entries
        if head.startswith(b"160000 ")
    }
    if not links:
        return
    named = _configured(bare, source.commit)
    for path, commit in list(links.items())[:MAX_SUBMODULES]:
        name, url = named.get(path, ("", ""))
        yield _wanted(path, commit, name, url, source)
    if len(links) > MAX_SUBMODULES:
        yield WantedSubmodule("others", None, f"more than {MAX_SUBMODULES} of them")


def _wanted(path: str, commit: str, name: str, url: str, source: Source) -> WantedSubmodule:
    if not name:
        return WantedSubmodule(path, None, ".gitmodules does not name it")
    own = _own_clone(source, name, commit)
    if own is not None:
        return WantedSubmodule(path, own)
    origin = _origin(source)
    address = _absolute(url, origin)
    if address is None or _host(address) != _host(origin):
        return WantedSubmodule(
            path,
            None,
            f"it is at {redact_url(url)!r}, another host than the repository's, and not "
            "in your clone: `git submodule update --init` there fetches it",
        )
    there = Source(address=address, path=None, commit=commit, ref_name=None)
    return WantedSubmodule(path, there)


def _configured(bare: Path, commit: str) -> dict[str, tuple[str, str]]:
    """Return name and URL of each submodule by its path, from `.gitmodules` of the commit."""
    values: dict[str, dict[str, str]] = {}
    with our_repository(bare) as repository, suppress(GitFailed):
        listed = repository.git.output("config", "--blob", f"{commit}:.gitmodules", "--list", "-z")
        for entry in listed.decode("utf-8", "surrogateescape").split("\0"):
            key, _, value = entry.partition("\n")
            section, _, option = key.rpartition(".")
            if section.startswith("submodule.") and option in ("path", "url"):
                values.setdefault(section.removeprefix("submodule."), {})[option] = value
    return {found.get("path", ""): (name, found.get("url", "")) for name, found in values.items()}


def _own_clone(source: Source, name: str, commit: str) -> Source | None:
    """Return the user's clone of a submodule if it has the commit."""
    # The name is from the repository, and git allows slashes in it.
    if source.path is None or ".." in Path(name).parts or Path(name).is_absolute():
        return None
    try:
        common = RuledGit(source.path, USERS).rev_parse("--git-common-dir")
        place = (source.path / common / "modules" / name).resolve()
        with users_repository(place) as repository:
            repository.git.rev_parse("--quiet", "--verify", f"{commit}^{{commit}}")
    except GitFailed:
        return None
    return Source(address=str(place), path=place, commit=commit, ref_name=None)


def _origin(source: Source) -> str:
    if source.path is None:
        return source.address
    with suppress(GitFailed):
        return str(RuledGit(source.path, USERS).config("--get", "remote.origin.url"))
    return ""


def _absolute(url: str, origin: str) -> str | None:
    """Return the URL of a submodule; a relative one starts at the repository's own."""
    if url.startswith(("./", "../")):
        if found := _SSH.fullmatch(origin):
            base = f"ssh://x/{found[2].rstrip('/')}/"
            moved = urljoin(base.replace("ssh", "http", 1), url)
            return f"{origin.partition(':')[0]}:{urlsplit(moved).path.lstrip('/')}"
        return urljoin(f"{origin.rstrip('/')}/", url) if "://" in origin else None
    is_known = url.startswith(("https://", "http://", "ssh://")) or _SSH.fullmatch(url)
    return url if is_known and not url.startswith("-") else None


def _host(address: str) -> str:
    found = _SSH.fullmatch(address)
    return found[1] if found else urlsplit(address).hostname or ""


def absolute_remote(address: str, repository: Path) -> str:
    """Return a remote's address; a relative path starts at the repository."""
    is_path = "://" not in address and not _SSH.fullmatch(address)
    return str(repository / address) if is_path else address
