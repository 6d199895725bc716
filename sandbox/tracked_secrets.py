"""Files of a commit that look like secrets, by their name and content or by known formats.

A heuristic for a notice and for closing the way out: it knows the formats below and finds no secret
that looks like an ordinary word.
"""

import re
from collections.abc import Callable
from contextlib import suppress

from contracts.errors import GitFailed
from sandbox.git import Repository, our_repository
from sandbox.repos import BaseCommit

# Formats with a fixed beginning and length, so that prose and code rarely match. POSIX syntax.
_FORMATS = (
    r"-----BEGIN ([A-Z0-9]+ )*PRIVATE KEY( BLOCK)?-----",
    r"(AKIA|ASIA)[0-9A-Z]{16}",
    r"gh[pousr]_[A-Za-z0-9]{36}",
    r"github_pat_[A-Za-z0-9_]{60}",
    r"glpat-[A-Za-z0-9_-]{20}",
    r"xox[abeoprs]-[0-9A-Za-z-]{20}",
    r"hooks\.slack\.com/services/T[A-Z0-9]+/B[A-Z0-9]+/",
    r"[rs]k_live_[A-Za-z0-9]{20}",
    r"sk-ant-[A-Za-z0-9_-]{30}",
    r"sk-proj-[A-Za-z0-9_-]{40}",
    r"AIza[A-Za-z0-9_-]{35}",
    r"npm_[A-Za-z0-9]{36}",
    r"pypi-AgEI[A-Za-z0-9_-]{50}",
    r"hf_[A-Za-z0-9]{34}",
    r"SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}",
)
# In a file with the name of a secret, an assignment of a plain value is enough.
_ASSIGNMENT = re.compile(
    rb"PRIVATE KEY|_auth(Token)?\s*=\s*[^$\s]|^\s*(export\s+)?[A-Z][A-Z0-9_]*=['\"]?[^\s'\"$<{]{4}"
    rb"|(passw(or)?d|secret|token|api_?key|credential)[\w.-]*['\"]?\s*[:=\s]\s*['\"]?[^\s'\"$<{(\[]{6}",
    re.I | re.M,
)
_MAX_BYTES = 1 << 20
"""Bytes of a file with the name of a secret that are looked at."""


def tracked_secrets(
    base: BaseCommit, is_secret_name: Callable[[str], bool], *, history: bool
) -> tuple[str, ...]:
    """Return the paths that look like secrets, sorted.

    The commit's files are searched for known formats; files whose name is one of a secret also
    for assignments, with `history` those of all earlier commits too.
    """
    with our_repository(base.bare) as repository:
        found = set(_with_known_format(repository, base.commit))
        for path, blob in _blobs(repository, base.commit, history=history):
            if path not in found and is_secret_name(path) and _assigns(repository, blob):
                found.add(path)
    return tuple(sorted(found))


def _with_known_format(repository: Repository, commit: str) -> list[str]:
    patterns = (part for one in _FORMATS for part in ("-e", one))
    listed = b""
    with suppress(GitFailed):  # git ends with 1 where nothing matches
        listed = repository.git.output("grep", "-z", "-l", "-E", *patterns, commit, "--")
    return [_text(row).partition(":")[2] for row in listed.split(b"\0") if row]


def _blobs(repository: Repository, commit: str, *, history: bool) -> list[tuple[str, str]]:
    """Return paths and objects; of the history, folders are among them, which assign nothing."""
    if history:
        rows = repository.git.output("rev-list", "--objects", commit).split(b"\n")
        pairs = (row.partition(b" ") for row in rows)
        return [(_text(path), blob.decode()) for blob, _, path in pairs if path]
    rows = repository.git.output("ls-tree", "-r", "-z", "--full-tree", commit).split(b"\0")
    entries = (row.partition(b"\t") for row in rows if row)
    return [(_text(path), head.split(b" ")[2].decode()) for head, _, path in entries]


def _assigns(repository: Repository, blob: str) -> bool:
    if repository.git.get_object_header(blob)[2] > _MAX_BYTES:
        return False
    return bool(_ASSIGNMENT.search(repository.git.get_object_data(blob)[3]))


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")
