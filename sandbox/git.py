"""Git on the host, by GitPython: the only place that starts a git process here.

Git on the host never works in a repository that an agent could write. `OURS` is for the bare
repositories that Harness owns: no configuration but their own, no transport but files. `USERS`
is for the repository that the user named: the user's configuration and credentials apply, as at
their prompt. Neither runs a hook, starts a file system monitor or asks a question.
"""

import os
import re
import subprocess
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from threading import Timer
from typing import IO, NoReturn, Self, cast

os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")  # else importing it fails where git is missing

from git.cmd import Git
from git.db import GitCmdObjectDB
from git.exc import GitCommandError
from git.repo import Repo

from contracts.errors import GitFailed, Unavailable
from sandbox.redaction import redact_url

TIMEOUT_S = 900.0
"""Longer than any honest fetch. A crafted pack must not hold a run for ever."""

_CHUNK = 1 << 16
# Each of these would start a program that the repository names, or work in the background.
_QUIET = ("core.hooksPath=/dev/null", "core.fsmonitor=false", "gc.auto=0", "maintenance.auto=false")
# Lines of git that tell a user of Harness nothing.
_EMPTY_WORDS = ("hint:", "Please make sure you have", "and the repository exists")


@dataclass(frozen=True, kw_only=True)
class Rules:
    """Options and environment of the git commands of one class of repository."""

    protocols: tuple[str, ...]
    env: Mapping[str, str]
    dropped: re.Pattern[str]
    """Environment variables of this process that git does not get."""

    def settings(self) -> list[str]:
        """Values of `git -c`, which take precedence over every configuration file."""
        allowed = [f"protocol.{name}.allow=always" for name in self.protocols]
        return [*_QUIET, "protocol.version=2", "protocol.allow=never", *allowed]

    def environ(self) -> dict[str, str]:
        """The environment of the git process."""
        inherited = {k: v for k, v in os.environ.items() if not self.dropped.match(k)}
        fixed = {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0"}
        return {**inherited, **fixed, **self.env}


OURS = Rules(
    protocols=("file",),
    env={
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_SYSTEM": "/dev/null",
        "GIT_ALLOC_LIMIT": "2g",  # a crafted delta can claim any size
    },
    dropped=re.compile("GIT_"),
)
USERS = Rules(
    protocols=("file", "https", "http", "ssh"),
    env={},
    # Set in a hook of the user, they would point every command to the hook's repository.
    dropped=re.compile("GIT_(DIR|WORK_TREE|INDEX_FILE|COMMON_DIR|NAMESPACE|PREFIX|.*OBJECT.*)$"),
)


class GitCommandFailed(GitFailed, GitCommandError):
    """A `GitFailed` that GitPython's own methods recognize as a failed command."""

    def __init__(self, command: Sequence[str], status: int, message: str) -> None:
        GitCommandError.__init__(self, list(command), status)
        self._message = message

    def __str__(self) -> str:
        return self._message


class RuledGit(Git):
    """GitPython's `Git` for one directory, with the options and environment of `Rules`.

    `Git.execute` passes on all of `os.environ` and can deadlock on a long standard error,
    so this class starts the process itself.
    """

    __slots__ = ("rules",)

    def __init__(self, directory: Path, rules: Rules) -> None:
        super().__init__()
        self._working_dir = str(directory)  # the constructor would expand `~` and `$NAME` in it
        self.rules = rules
        self.set_persistent_git_options(c=rules.settings())

    def execute(  # type: ignore[override]  # the options that GitPython's own methods pass
        self,
        command: Sequence[str],
        istream: bytes | int | FileIO | None = None,
        *,
        as_process: bool = False,
        stdout_as_string: bool = True,
        strip_newline_in_stdout: bool = True,
        **_: object,
    ) -> "str | bytes | Git.AutoInterrupt":
        """Run a git command. Methods of GitPython and `repo.git.<command>()` end here.

        `istream` is the standard input: bytes or an unbuffered file, or `subprocess.PIPE` with
        `as_process`. A process that is returned has no standard error and no time limit.

        Raises:
            GitFailed: git exited with another code than 0, or ran longer than TIMEOUT_S.
            Unavailable: git is not installed.
        """
        environ = self.rules.environ()  # GitPython's own `env=` would add to os.environ
        try:
            if as_process:
                process = subprocess.Popen(
                    command,
                    cwd=self._working_dir,
                    env=environ,
                    stdin=istream if isinstance(istream, int) else subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                )
                return Git.AutoInterrupt(process, command)
            given = istream if isinstance(istream, bytes) else b""
            done = subprocess.run(
                command,
                cwd=self._working_dir,
                env=environ,
                stdin=istream if isinstance(istream, FileIO) else None,
                input=None if isinstance(istream, FileIO) else given,
                capture_output=True,
                timeout=TIMEOUT_S,
                check=False,
            )
        except (FileNotFoundError, PermissionError) as error:
            if str(error.filename) == self._working_dir:
                reason = f"git cannot work in {self._working_dir!r}: {error.strerror}"
                raise GitFailed(reason) from error
            raise Unavailable("git is not on PATH: install it and try again") from error
        except subprocess.TimeoutExpired as error:
            raise GitFailed(_too_long(command)) from error
        if done.returncode:
            message = f"git {_subcommand(command)} failed: {error_text(done.stderr)}"
            raise GitCommandFailed(command, done.returncode, message)
        output = done.stdout.removesuffix(b"\n") if strip_newline_in_stdout else done.stdout
        return output.decode("utf-8", "replace") if stdout_as_string else output

    def output(self, subcommand: str, *args: str, stdin: bytes | FileIO = b"") -> bytes:
        """Return the exact bytes that a git command writes; raises as `execute` does."""
        options = {"stdout_as_string": False, "strip_newline_in_stdout": False}
        return cast(bytes, self._call_process(subcommand, *args, istream=stdin, **options))

    def stream(self, subcommand: str, *args: str) -> Generator[bytes]:
        """Yield the output of a git command in pieces. Closing the generator kills git.

        Raises:
            GitFailed: git exited with another code than 0, or ran longer than TIMEOUT_S.
        """
        running = cast(Git.AutoInterrupt, self._call_process(subcommand, *args, as_process=True))
        process = cast("subprocess.Popen[bytes]", running.proc)
        timer = Timer(TIMEOUT_S, process.kill)
        timer.start()
        try:
            with process:
                stdout = cast(IO[bytes], process.stdout)
                while piece := stdout.read(_CHUNK):
                    yield piece
        except GeneratorExit:
            process.kill()
            raise
        finally:
            timer.cancel()
        if process.returncode:
            raise GitFailed(f"git {subcommand} ended early, with code {process.returncode}")

    def first_bytes(self, limit: int, subcommand: str, *args: str) -> bytes:
        """Return at most the first `limit` bytes that a git command writes, then kill it.

        Raises:
            GitFailed: git exited with another code than 0, or ran longer than TIMEOUT_S.
        """
        start = bytearray()
        with closing(self.stream(subcommand, *args)) as pieces:
            while len(start) < limit and (piece := next(pieces, b"")):
                start += piece
        return bytes(start[:limit])


class Repository(Repo):
    """A GitPython repository of which only git itself reads configuration.

    `Repo.__init__` would obey GIT_DIR, GIT_COMMON_DIR and GIT_OBJECT_DIRECTORY of this process,
    expand `$NAME` in the path, and read the configuration with its includes before git has
    checked who owns the repository. This one takes all it needs from `git rev-parse`.
    """

    git: RuledGit

    def __init__(self, path: Path, rules: Rules) -> None:
        self.git = RuledGit(path, rules)
        found = self.git.rev_parse("--is-bare-repository", "--git-common-dir", "--absolute-git-dir")
        is_bare, common_dir, git_dir = found.split("\n", maxsplit=2)
        self.git_dir = git_dir
        self._common_dir = os.path.join(path, common_dir)  # noqa: PTH118  a string for GitPython
        self._bare = is_bare == "true"
        self._working_tree_dir = None if self._bare else str(path)
        self.working_dir = str(path)
        self.odb = GitCmdObjectDB(os.path.join(self.common_dir, "objects"), self.git)  # noqa: PTH118

    def __enter__(self) -> Self:
        return self

    def config_reader(self, *_: object) -> NoReturn:
        """Refuse: only git reads configuration, after it checked who owns the repository."""
        raise NotImplementedError("configuration is read by git, not by GitPython")


def our_repository(bare: Path) -> Repository:
    """Return a bare repository that Harness owns."""
    return Repository(bare, OURS)


def users_repository(path: Path) -> Repository:
    """Return a repository that the user named, or one of ours that fetches or pushes for them."""
    return Repository(path, USERS)


def branch_ref(branch: str) -> str:
    """Return the full ref of a branch name that is safe on any command line.

    Raises:
        ValueError: the name has other characters than letters, digits, `_`, `.`, `-` and `/`.
    """
    # A leading `-` would be an option of the command, `..` a range of commits.
    if not re.fullmatch(r"[A-Za-z0-9][\w./-]*", branch) or ".." in branch:
        raise ValueError(f"not a branch name: {branch!r}")
    return f"refs/heads/{branch}"


def error_text(stderr: bytes) -> str:
    """Return the end of git's standard error on one line, safe for terminals, no credentials."""
    lines = [line.strip() for line in stderr[-_CHUNK:].decode("utf-8", "replace").splitlines()]
    useful = [line for line in lines if line and not line.startswith(_EMPTY_WORDS)]
    text = "; ".join(line.removeprefix("fatal: ") for line in useful[-4:])
    printable = "".join(char if char.isprintable() else "?" for char in text)
    return redact_url(printable) or "it gave no reason"


def _subcommand(command: Sequence[str]) -> str:
    position = 1
    while command[position] == "-c":
        position += 2
    return command[position]


def _too_long(command: Sequence[str]) -> str:
    return f"git {_subcommand(command)} did not end within {TIMEOUT_S:.0f} s"
