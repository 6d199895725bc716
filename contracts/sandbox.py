"""What a sandbox is to those who work in one."""

import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, NamedTuple, NewType, Protocol, Self

DEFAULT_OUTPUT_LIMIT = 256 * 1024
"""Bytes kept of each stream: the first quarter and the last three quarters of this."""

DEFAULT_FILE_LIMIT = 64 * 1024 * 1024
"""Bytes that one `read_file` gives at most, unless the caller says otherwise."""


class CommitAuthor(NamedTuple):
    """The author of a commit."""

    name: str
    email: str


DEFAULT_AUTHOR = CommitAuthor("Harness", "harness@localhost")
"""The author of commits in a sandbox, unless the repository names another."""

SnapshotId = NewType("SnapshotId", str)
Stream = Literal["stdout", "stderr"]
OnOutput = Callable[[Stream, bytes], None]
"""Called in the thread that called `exec`, with raw bytes as they arrive."""
Connect = Callable[[], socket.socket]
"""Opens one connection to the outside. If it raises OSError, the client inside sees a connection
reset."""


@dataclass(frozen=True, kw_only=True)
class Command:
    """One process to run: an argv, never a shell line.

    `cwd` is absolute or relative to the workspace. `timeout_s=None` means no limit of
    its own. `output_limit` is in bytes for each stream. Text for `stdin` goes as UTF-8.
    `user` is a name or a number that the sandbox knows, and never root; None: its own user.
    With `private`, no other process in the sandbox, not even a child, can reopen its stdin,
    stdout or stderr.

    Raises:
        TypeError: `argv` is a string, or holds something that is not one.
        ValueError: `argv` is empty, or an argument holds a NUL byte.
    """

    argv: Sequence[str]
    cwd: str | None = None
    env: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    user: str | None = None
    stdin: bytes | str = b""
    timeout_s: float | None = None
    output_limit: int = DEFAULT_OUTPUT_LIMIT
    private: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.argv, str):
            raise TypeError(
                f"argv must be a list of strings, got the string {self.argv!r}; "
                'for a shell line say ("sh", "-c", line)'
            )
        argv = tuple(self.argv)
        if any(not isinstance(part, str) for part in argv):
            raise TypeError(f"argv must hold strings only, got {argv!r}")
        if not argv or not argv[0]:
            raise ValueError("argv is empty: it needs at least the program's name")
        if any("\0" in part for part in argv):
            raise ValueError(f"argv must not hold a NUL byte, got {argv!r}")
        object.__setattr__(self, "argv", argv)

    @property
    def stdin_bytes(self) -> bytes:
        """What the process reads; lone surrogates of a text are the bytes that they stand for."""
        if isinstance(self.stdin, str):
            return self.stdin.encode(errors="surrogateescape")
        return self.stdin


@dataclass(frozen=True, kw_only=True)
class ExecResult:
    """How one command ended.

    `launch_error` says why no process was started (missing binary, bad cwd, not
    executable, unknown user); `exit_code` is then 127 or 126 as a shell would have it. A command
    killed by signal N has exit code 128 + N; `out_of_memory` and `out_of_disk` say that the
    sandbox's limit was why. `out_of_processes` says that the command failed or timed out, and that
    the sandbox's limit of processes was reached while it ran. `stdout_size` and `stderr_size` count
    all bytes that were written, also those that were not kept.
    """

    exit_code: int
    stdout: bytes = b""
    stderr: bytes = b""
    duration_ms: int = 0
    timed_out: bool = False
    out_of_memory: bool = False
    out_of_disk: bool = False
    out_of_processes: bool = False
    truncated: bool = False
    stdout_size: int = 0
    stderr_size: int = 0
    killed_children: int = 0
    launch_error: str | None = None

    @property
    def ok(self) -> bool:
        """True when the command ran and exited 0."""
        return self.exit_code == 0 and not self.timed_out and self.launch_error is None

    @property
    def text(self) -> str:
        """Both streams as text, stdout first; invalid UTF-8 is replaced."""
        parts = [s.decode("utf-8", "replace").rstrip("\n") for s in (self.stdout, self.stderr)]
        return "\n".join(part for part in parts if part)


class Sandbox(Protocol):
    """A place where hostile code can run: a process tree and files, nothing else."""

    @property
    def work_dir(self) -> str:
        """Absolute path of the workspace inside the sandbox."""
        ...

    def exec(self, command: Command, on_output: OnOutput | None = None) -> ExecResult:
        """Run argv in the sandbox and wait for it.

        A command that runs longer than `command.timeout_s` is killed with its children
        and returns `timed_out=True`, not an exception. Children that a command leaves
        behind are killed and counted in `killed_children`.

        Raises:
            SandboxLost: the sandbox is gone or cannot start a process.
        """
        ...

    def read_file(self, path: str, limit: int = DEFAULT_FILE_LIMIT) -> bytes:
        """Give the bytes of a regular file; `path` is absolute or relative to the workspace.

        Raises:
            SandboxFileMissing, SandboxFileDenied, SandboxNotAFile, SandboxFileTooLarge.
            SandboxLost: the sandbox is gone.
        """
        ...

    def write_file(self, path: str, data: bytes) -> None:
        """Write the file whole, making its parent directories; an old one is replaced.

        Raises:
            SandboxFileDenied, SandboxNotAFile.
            SandboxLost: the sandbox is gone.
        """
        ...

    def upload_files(self, files: Mapping[str, bytes]) -> None:
        """Write many files: path to content, as `write_file` does for one."""
        ...

    def forward(self, port: int, connect: Connect) -> int:
        """Lead 127.0.0.1:`port` inside to sockets that `connect` gives; the only way out there is.

        Port 0 picks a free one; the port's number is returned. It stays open as long as the
        sandbox lives, also after `restore`. `connect` is called in threads of the sandbox's
        own, once for each connection, which closes what it got.

        Raises:
            ValueError: `port` is neither 0 nor from 1024 to 65535.
            Unavailable: something inside has that port.
            SandboxLost: the sandbox is gone.
        """
        ...

    def snapshot(self) -> SnapshotId:
        """Keep all files as they are now, under an id that `restore` takes.

        Raises:
            SandboxLost: the sandbox is gone.
        """
        ...

    def restore(self, snapshot: SnapshotId) -> None:
        """Put all files back as they were at the snapshot; every process is ended.

        Raises:
            SandboxLost: the sandbox, or the snapshot, is gone.
        """
        ...

    def teardown(self) -> None:
        """Remove the sandbox and its snapshots. Doing it twice is fine."""
        ...


class PersistentSandbox(Sandbox, Protocol):
    """A sandbox whose files can outlive it, and go on in others."""

    def now(self) -> float:
        """The time, in seconds since 1970, by the clock that its files' change times go by.

        That is the engine's, which may be another machine. 0.0 when nobody can tell.

        Raises:
            SandboxLost: the sandbox is gone.
        """
        ...

    def changed_since(self, moment: float) -> bool:
        """False only when no file that commands can write was touched since `moment`.

        `moment` is as `now` gave it. True also when nobody can tell in good time.

        Raises:
            SandboxLost: the sandbox is gone.
        """
        ...

    def checkpoint(self, ttl_s: float) -> SnapshotId:
        """A snapshot that outlives this sandbox and its process, for `ttl_s`.

        Raises:
            SandboxLost: the sandbox is gone.
        """
        ...

    def fork(self, snapshot: SnapshotId) -> Self:
        """Start another sandbox of the same kind from a snapshot; this one goes on.

        Raises:
            SandboxLost: the snapshot is gone.
        """
        ...
