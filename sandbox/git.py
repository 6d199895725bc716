"""Git on the host: an argv, a clean environment, an error with git's own words.

Git here never works inside a repository that an agent could write. `OURS` is for the bare
repositories Harness owns: no configuration but their own, no transport but files. `USERS`
is for what the user named: their configuration and credentials count, as at their prompt.
Neither runs a hook, starts a file system monitor or asks a question.
"""

import os
import re
import subprocess
from collections.abc import Generator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from typing import IO, cast

from contracts.errors import GitFailed, Unavailable

TIMEOUT_S = 900.0
"""Longer than any honest fetch; a crafted pack must not hold a run for ever."""

_PIECE = 1 << 16
_CREDENTIALS = re.compile(r"(\w://)[^/\s]+@")
_QUIET = ("core.hooksPath=/dev/null", "core.fsmonitor=false", "gc.auto=0", "maintenance.auto=false")
_EMPTY_WORDS = ("hint:", "Please make sure you have", "and the repository exists")


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What one class of git command may do."""

    protocols: tuple[str, ...]
    env: Mapping[str, str]
    drops: re.Pattern[str]
    """Variables of ours that git must not see."""

    def options(self) -> tuple[str, ...]:
        allowed = [f"protocol.{name}.allow=always" for name in self.protocols]
        settings = [*_QUIET, "protocol.version=2", "protocol.allow=never", *allowed]
        return tuple(part for setting in settings for part in ("-c", setting))

    def environ(self) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not self.drops.match(k)}
        ours = {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0"}
        return {**kept, **ours, **self.env}


OURS = Rules(
    protocols=("file",),
    env={
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_SYSTEM": "/dev/null",
        "GIT_ALLOC_LIMIT": "2g",  # a crafted delta can claim any size
    },
    drops=re.compile("GIT_"),
)
USERS = Rules(
    protocols=("file", "https", "http", "ssh"),
    env={},
    drops=re.compile("GIT_(DIR|WORK_TREE|INDEX_FILE|COMMON_DIR|NAMESPACE|PREFIX|.*OBJECT.*)$"),
)


def git(*args: str, at: Path, rules: Rules = OURS, stdin: bytes = b"") -> bytes:
    """What `git *args` writes to stdout, run in the directory `at`.

    Raises:
        GitFailed: git exited with another code than 0, or ran longer than TIMEOUT_S.
        Unavailable: git is not installed.
    """
    try:
        done = subprocess.run(
            ("git", *rules.options(), *args),
            cwd=at,
            env=rules.environ(),
            input=stdin,
            capture_output=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except (FileNotFoundError, PermissionError) as error:
        if str(error.filename) == str(at):
            raise GitFailed(f"git cannot work in {str(at)!r}: {error.strerror}") from error
        raise Unavailable("git is not on PATH: install it and try again") from error
    except subprocess.TimeoutExpired as error:
        raise GitFailed(f"git {_verb(args)} did not end within {TIMEOUT_S:.0f} s") from error
    if done.returncode:
        raise GitFailed(f"git {_verb(args)} failed: {error_text(done.stderr)}")
    return done.stdout


def git_text(*args: str, at: Path, rules: Rules = OURS) -> str:
    """The same as one stripped string; bytes that are not UTF-8 are replaced."""
    return git(*args, at=at, rules=rules).decode("utf-8", "replace").strip()


def git_stream(*args: str, at: Path) -> Generator[bytes]:
    """What `git *args` writes, piece by piece; it is killed when nobody wants more.

    Raises:
        GitFailed: git exited with another code than 0, or ran longer than TIMEOUT_S.
    """
    argv = ("git", *OURS.options(), *args)
    nothing = subprocess.DEVNULL
    with subprocess.Popen(
        argv, cwd=at, env=OURS.environ(), stdin=nothing, stdout=subprocess.PIPE, stderr=nothing
    ) as process:
        stdout = cast(IO[bytes], process.stdout)  # never None: a PIPE was asked for
        late = Timer(TIMEOUT_S, process.kill)
        late.start()
        try:
            while piece := stdout.read(_PIECE):
                yield piece
            process.wait()
        finally:
            late.cancel()
            process.kill()
    if process.returncode:
        raise GitFailed(f"git {_verb(args)} ended early, with code {process.returncode}")


def git_first_bytes(*args: str, at: Path, limit: int) -> bytes:
    """At most the first `limit` bytes that `git *args` writes; then it is killed.

    Raises:
        GitFailed: git exited with another code than 0, or ran longer than TIMEOUT_S.
    """
    start = bytearray()
    with closing(git_stream(*args, at=at)) as pieces:
        while len(start) < limit and (piece := next(pieces, b"")):
            start += piece
    return bytes(start[:limit])


def redact_url(words: str) -> str:
    """The same words with user and password taken out of every URL."""
    return _CREDENTIALS.sub(r"\1***@", words)


def branch_ref(branch: str) -> str:
    """The full ref of a branch name that is safe on any command line.

    Raises:
        ValueError: the name is not plain words, dots, dashes and slashes.
    """
    if not re.fullmatch(r"[A-Za-z0-9][\w./-]*", branch) or ".." in branch:
        raise ValueError(f"not a branch name: {branch!r}")
    return f"refs/heads/{branch}"


def error_text(stderr: bytes) -> str:
    """Git's last words on one line; what could steer a terminal is replaced."""
    lines = [line.strip() for line in stderr[-_PIECE:].decode("utf-8", "replace").splitlines()]
    told = [line for line in lines if line and not line.startswith(_EMPTY_WORDS)]
    words = "; ".join(line.removeprefix("fatal: ") for line in told[-4:])
    printable = "".join(char if char.isprintable() else "?" for char in words)
    return redact_url(printable) or "it gave no reason"


def _verb(args: tuple[str, ...]) -> str:
    return args[2 * args.count("-c")]
