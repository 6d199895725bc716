"""ScriptedSandbox: a sandbox without Docker, for tests and dry runs of trusted commands.

It isolates NOTHING: commands run as you, on your files, with your network. It is honest
about all else: timeouts, leftovers, output limits and errors are as in the real one.
"""

import errno
import os
import shutil
import socket
import struct
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Final, Self

from contracts.errors import SandboxLost, Unavailable
from contracts.sandbox import (
    DEFAULT_FILE_LIMIT,
    Command,
    Connect,
    ExecResult,
    FileContent,
    OnOutput,
    SnapshotId,
    Stream,
)
from sandbox.files import file_error, open_content
from sandbox.local_process import follow, start
from sandbox.port_forward import check_port
from sandbox.relay import relay
from sandbox.supervisor.frames import shorten
from sandbox.supervisor.launch import open_regular

# Linger for zero seconds: close sends a reset, as a refused connection would be seen inside.
_RESET: Final = struct.pack("ii", 1, 0)


class ScriptedSandbox:
    """A `Sandbox` in a temporary directory; `answers` replaces commands by scripted results.

    A scripted answer's output is also given to `on_output`. A checkpoint is a directory,
    which `forget` removes. Linux only.
    """

    def __init__(self, answers: Mapping[tuple[str, ...], ExecResult] | None = None) -> None:
        self._answers = dict(answers or {})
        self._home = Path(tempfile.mkdtemp(prefix="harness-scripted-"))
        self._work_dir = self._home / "workspace"
        self._work_dir.mkdir()
        self._snapshots = 0
        self._ports: list[LoopbackForward] = []

    @classmethod
    def resume(cls, checkpoint: SnapshotId) -> Self:
        """Return a sandbox with the files of a checkpoint.

        Raises:
            SandboxLost: the checkpoint is gone.
        """
        made = cls()
        made._copy_from(Path(checkpoint))
        return made

    @property
    def work_dir(self) -> str:
        """Absolute path of the workspace, on the host."""
        return str(self._work_dir)

    def exec(self, command: Command, on_output: OnOutput | None = None) -> ExecResult:
        """Answer from the script, or run argv here; see `Sandbox.exec`."""
        self._check_alive()
        scripted = self._answers.get(tuple(command.argv))
        if scripted is not None:
            _replay(scripted, on_output)
            return scripted
        cwd = self._work_dir / (command.cwd or "")
        if not os.access(cwd, os.X_OK) or not cwd.is_dir():
            return ExecResult(exit_code=126, launch_error=shorten(f"cannot work in {str(cwd)!r}"))
        try:
            process = start(command, cwd)
        except OSError as error:
            missing = isinstance(error, FileNotFoundError | NotADirectoryError)
            reason = f"cannot run {command.argv[0]!r}: {error.strerror}"
            return ExecResult(exit_code=127 if missing else 126, launch_error=shorten(reason))
        except LookupError as error:
            return ExecResult(exit_code=126, launch_error=shorten(str(error)))
        with process:
            return follow(process, command, on_output)

    def read_file(self, path: str, limit: int = DEFAULT_FILE_LIMIT) -> bytes:
        """Return the bytes of a regular file; see `Sandbox.read_file`."""
        self._check_alive()
        try:
            fd = open_regular(self._full(path), self.work_dir, os.O_RDONLY)
        except OSError as error:
            raise _named(error, f"read {path!r}") from error
        with os.fdopen(fd, "rb") as file:
            data = file.read(limit + 1)
        if len(data) > limit:
            raise file_error("EFBIG", f"read {path!r}", f"larger than {limit} bytes")
        return data

    def write_file(self, path: str, content: FileContent) -> None:
        """Write the file whole; see `Sandbox.write_file`."""
        self._check_alive()
        try:
            full = Path(self._full(path))
            full.parent.mkdir(parents=True, exist_ok=True)
            fd = open_regular(str(full), self.work_dir, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        except OSError as error:
            raise _named(error, f"write {path!r}") from error
        with os.fdopen(fd, "wb") as file, open_content(content) as source:
            shutil.copyfileobj(source, file)

    def upload_files(self, files: Mapping[str, FileContent]) -> None:
        """Write many files; see `Sandbox.upload_files`."""
        for path, content in files.items():
            self.write_file(path, content)

    def forward(self, port: int, connect: Connect) -> int:
        """Listen on the host's loopback; see `Sandbox.forward`."""
        self._check_alive()
        check_port(port)
        self._ports.append(LoopbackForward(port, connect))
        return self._ports[-1].number

    def snapshot(self) -> SnapshotId:
        """Copy the workspace; see `Sandbox.snapshot`."""
        self._check_alive()
        self._snapshots += 1
        snapshot = self._home / f"snapshot-{self._snapshots}"
        shutil.copytree(self._work_dir, snapshot, symlinks=True)
        return SnapshotId(str(snapshot))

    def restore(self, snapshot: SnapshotId) -> None:
        """Copy the workspace back; see `Sandbox.restore`. Processes are not ended."""
        self._check_alive()
        self._copy_from(Path(snapshot))

    def now(self) -> float:
        """Return the time of the host; see `LastingSandbox.now`."""
        self._check_alive()
        return time.time()

    def changed_since(self, moment: float) -> bool:
        """Check every file of the workspace; see `LastingSandbox.changed_since`."""
        self._check_alive()
        return any(path.lstat().st_ctime > moment for path in (self._work_dir, *self._all()))

    def checkpoint(self, ttl_s: float, *, name: str = "") -> SnapshotId:  # noqa: ARG002 - nobody reaps or lists directories
        """Copy the workspace to a folder of its own; see `LastingSandbox.checkpoint`."""
        self._check_alive()
        checkpoint = Path(tempfile.mkdtemp(prefix="harness-checkpoint-"))
        shutil.copytree(self._work_dir, checkpoint, symlinks=True, dirs_exist_ok=True)
        return SnapshotId(str(checkpoint))

    def fork(self, snapshot: SnapshotId) -> Self:
        """Return another sandbox with these files; see `LastingSandbox.fork`."""
        self._check_alive()
        forked = type(self)(self._answers)
        forked._copy_from(Path(snapshot))
        return forked

    def teardown(self) -> None:
        """Remove the directory, if it still exists."""
        while self._ports:
            self._ports.pop().close()
        if self._home.exists():
            shutil.rmtree(self._home)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.teardown()

    def _copy_from(self, snapshot: Path) -> None:
        if not snapshot.is_dir():
            raise SandboxLost(f"the snapshot {str(snapshot)!r} is gone")
        shutil.rmtree(self._work_dir)
        shutil.copytree(snapshot, self._work_dir, symlinks=True)

    def _all(self) -> Iterator[Path]:
        return self._work_dir.rglob("*")

    def _full(self, path: str) -> str:
        return os.path.join(self.work_dir, path)  # noqa: PTH118  a Path would drop "a/./b"

    def _check_alive(self) -> None:
        if not self._work_dir.exists():
            raise SandboxLost("the sandbox was torn down")


def remove_checkpoint(checkpoint: SnapshotId) -> None:
    """Remove a checkpoint, if it still exists."""
    shutil.rmtree(checkpoint, ignore_errors=True)


def _replay(answer: ExecResult, on_output: OnOutput | None) -> None:
    streams: tuple[tuple[Stream, bytes], ...] = (
        ("stdout", answer.stdout),
        ("stderr", answer.stderr),
    )
    for stream, data in streams:
        if on_output is not None and data:
            on_output(stream, data)


def _named(error: OSError, wanted: str) -> Exception:
    name = errno.errorcode.get(error.errno or 0, "?")
    return file_error(name, wanted, error.strerror or str(error))


class LoopbackForward:
    """A port on the host's loopback, served by one thread and one more per connection."""

    def __init__(self, port: int, connect: Connect) -> None:
        try:
            self._listener = socket.create_server(("127.0.0.1", port))
        except OSError as error:
            raise Unavailable(f"cannot listen on port {port}: {error.strerror}") from error
        self._connect = connect
        self._live: set[socket.socket] = set()
        self.number: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, name="scripted-port", daemon=True).start()

    def close(self) -> None:
        """Stop listening and end all connections."""
        for end in (self._listener, *tuple(self._live)):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):  # the listener was closed
            while True:
                inside, _ = self._listener.accept()
                self._live.add(inside)
                threading.Thread(target=self._serve, args=(inside,), daemon=True).start()

    def _serve(self, inside: socket.socket) -> None:
        with closing(inside):
            try:
                with closing(self._connect()) as outside:
                    relay(inside, outside)
            except OSError:
                inside.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._live.discard(inside)
