"""The interface of a sandbox: commands, files, ports, snapshots."""

import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Literal, NamedTuple, NewType, Protocol, Self

DEFAULT_OUTPUT_LIMIT = 256 * 1024
"""Bytes kept of each stream: a quarter from the beginning, three quarters from the end."""

DEFAULT_FILE_LIMIT = 64 * 1024 * 1024
"""Largest file in bytes that `read_file` returns by default."""


EXCLUDES = ".git/harness-exclude"
"""File of the workspace with the paths that installs and tests wrote, which git then ignores."""


class CommitAuthor(NamedTuple):
    """Author of a commit."""

    name: str
    email: str


DEFAULT_AUTHOR = CommitAuthor("Harness", "harness@localhost")
"""Author of commits in a sandbox if the repository configures none."""

SnapshotId = NewType("SnapshotId", str)
Stream = Literal["stdout", "stderr"]
OnOutput = Callable[[Stream, bytes], None]
"""Receives raw bytes as they arrive, in the thread that called `exec`."""
Connect = Callable[[], socket.socket]
"""Open one connection on the host. After an OSError the client inside sees a connection reset."""


FileContent = bytes | Path
"""Content for a file of the sandbox: bytes, or a file of the host. A file of the host is read in
pieces while it is sent, so its size does not matter for memory."""


class OpenInput:
    """Input of a command that stays open while the command runs, for a dialogue with it.

    Written before `exec`, or by its `on_output`, and by no other thread.
    """

    def __init__(self, data: bytes = b"") -> None:
        self._waiting = bytearray(data)
        self.closed = False

    @classmethod
    def whole(cls, data: bytes) -> Self:
        """Return an input that is closed already."""
        made = cls(data)
        made.close()
        return made

    def write(self, data: bytes) -> None:
        """Add bytes that the command is to read."""
        self._waiting += data

    def close(self) -> None:
        """End the input: the command reads what was written, and then its end."""
        self.closed = True

    def take(self, size: int) -> bytes:
        """Remove and return up to `size` bytes; called by the sandbox."""
        data = bytes(self._waiting[:size])
        del self._waiting[:size]
        return data

    @property
    def waiting(self) -> bool:
        """True if there are bytes to take."""
        return bool(self._waiting)

    @property
    def ended(self) -> bool:
        """True if it is closed and everything was taken."""
        return self.closed and not self._waiting


@dataclass(frozen=True, kw_only=True)
class Command:
    """One process to run, as an argv.

    `cwd` is absolute or relative to the workspace. `timeout_s=None` sets no limit. `output_limit`
    is in bytes for each stream. A string for `stdin` is sent as UTF-8, and an `OpenInput` as it is
    written. `user` is a user name or id inside the sandbox, but never root; None is the sandbox
    user. With `private`, no other process in the sandbox, not even a child, can reopen stdin,
    stdout or stderr. With `stuck_after_s`, a command that writes nothing for so many seconds while
    one of its processes stays busy times out early. With `stacks`, Python (given
    `PYTHONFAULTHANDLER`), Java and Go tests get a moment to write their stacks when the command
    times out.

    Raises:
        TypeError: `argv` is a string, or an argument is not a string.
        ValueError: `argv` is empty, or an argument contains a NUL byte.
    """

    argv: Sequence[str]
    cwd: str | None = None
    env: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    user: str | None = None
    stdin: bytes | str | OpenInput = b""
    timeout_s: float | None = None
    output_limit: int = DEFAULT_OUTPUT_LIMIT
    private: bool = False
    stuck_after_s: float | None = None
    stacks: bool = False

    def __post_init__(self) -> None:
        # A string is a sequence of strings too: "ls" would run the program "l".
        if isinstance(self.argv, str):
            raise TypeError(
                f"argv must be a list of strings, got the string {self.argv!r}; "
                'for a shell line use ("sh", "-c", line)'
            )
        argv = tuple(self.argv)
        if any(not isinstance(part, str) for part in argv):
            raise TypeError(f"argv must hold strings only, got {argv!r}")
        if not argv or not argv[0]:
            raise ValueError("argv is empty: it needs at least the program's name")
        # The kernel ends an argument at a NUL, so the program would see another one.
        if any("\0" in part for part in argv):
            raise ValueError(f"argv must not hold a NUL byte, got {argv!r}")
        object.__setattr__(self, "argv", argv)

    @property
    def input(self) -> OpenInput:
        """Input of the process. Text is encoded as UTF-8, and escaped bytes are restored."""
        match self.stdin:
            case OpenInput():
                return self.stdin
            case str():
                return OpenInput.whole(self.stdin.encode(errors="surrogateescape"))
            case _:
                return OpenInput.whole(self.stdin)


@dataclass(frozen=True, kw_only=True)
class ExecResult:
    """Result of one command.

    `launch_error` is set if no process was started (missing binary, bad cwd, not executable,
    unknown user); `exit_code` is then 127 or 126, as in a shell. A command killed by signal N has
    exit code 128 + N. `out_of_memory` and `out_of_disk` are set if the sandbox's limit caused the
    kill, `stuck` if it timed out early because of `stuck_after_s`, `out_of_processes` if the
    command failed or timed out and reached the process limit, `disturbed` if a signal ended it that
    the sandbox did not send, while other commands ran that may have sent it. `stdout_size` and
    `stderr_size` count all bytes written, including those not kept.
    """

    exit_code: int
    stdout: bytes = b""
    stderr: bytes = b""
    duration_ms: int = 0
    timed_out: bool = False
    stuck: bool = False
    out_of_memory: bool = False
    out_of_disk: bool = False
    out_of_processes: bool = False
    disturbed: bool = False
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
    """An isolated process tree with files, for running untrusted code."""

    @property
    def work_dir(self) -> str:
        """Absolute path of the workspace inside the sandbox."""
        ...

    def exec(self, command: Command, on_output: OnOutput | None = None) -> ExecResult:
        """Run argv in the sandbox and wait for it.

        A command that runs longer than `command.timeout_s` is killed with its children; the
        result then has `timed_out=True`. Background processes that a command leaves are killed
        and counted in `killed_children`.

        Raises:
            SandboxLost: the sandbox no longer exists or cannot start a process.
        """
        ...

    def read_file(self, path: str, limit: int = DEFAULT_FILE_LIMIT) -> bytes:
        """Return the bytes of a regular file; `path` is absolute or relative to the workspace.

        Raises:
            SandboxFileMissing, SandboxFileDenied, SandboxNotAFile, SandboxFileTooLarge.
            SandboxLost: the sandbox no longer exists.
        """
        ...

    def write_file(self, path: str, content: FileContent) -> None:
        """Write or replace a file atomically; missing parent directories are created.

        Raises:
            SandboxFileDenied, SandboxNotAFile.
            SandboxLost: the sandbox no longer exists.
            OSError: the file of the host cannot be read.
        """
        ...

    def upload_files(self, files: Mapping[str, FileContent]) -> None:
        """Write many files, given as path to content; see `write_file`."""
        ...

    def forward(self, port: int, connect: Connect) -> int:
        """Forward 127.0.0.1:`port` inside the sandbox to sockets that `connect` opens.

        This is the only way out of a sandbox. Port 0 picks a free port; the port is returned. It
        stays open until `teardown`, also after `restore`. Each connection calls `connect` in a
        thread of its own and closes the socket at the end.

        Raises:
            ValueError: `port` is neither 0 nor from 1024 to 65535.
            Unavailable: a process inside already listens on the port.
            SandboxLost: the sandbox no longer exists.
        """
        ...

    def snapshot(self) -> SnapshotId:
        """Save all files and return an id for `restore`.

        Raises:
            SandboxLost: the sandbox no longer exists.
        """
        ...

    def restore(self, snapshot: SnapshotId) -> None:
        """Restore all files from the snapshot and kill all processes.

        Raises:
            SandboxLost: the sandbox or the snapshot no longer exists.
        """
        ...

    def teardown(self) -> None:
        """Remove the sandbox and its snapshots. A second call does nothing."""
        ...


class PersistentSandbox(Sandbox, Protocol):
    """A sandbox whose files can be saved for other sandboxes."""

    def now(self) -> float:
        """Return the Unix time by the clock that stamps the sandbox's files, or 0.0 if unknown.

        The Docker engine may run on another machine with another clock.

        Raises:
            SandboxLost: the sandbox no longer exists.
        """
        ...

    def changed_since(self, moment: float) -> bool:
        """Return False only if no writable file was changed since `moment`, a result of `now`.

        Return True also if the check takes too long.

        Raises:
            SandboxLost: the sandbox no longer exists.
        """
        ...

    def checkpoint(self, ttl_s: float, *, name: str = "") -> SnapshotId:
        """Save all files for `ttl_s` seconds, beyond the life of this sandbox and this process.

        With a name the snapshot belongs to no run: it is kept when the run ends.

        Raises:
            SandboxLost: the sandbox no longer exists.
        """
        ...

    def fork(self, snapshot: SnapshotId) -> Self:
        """Start another sandbox of the same kind from a snapshot; this one keeps running.

        Raises:
            SandboxLost: the snapshot no longer exists.
        """
        ...
