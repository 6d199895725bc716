"""ScriptedSandbox: a sandbox without Docker, for tests and dry runs of trusted commands.

It isolates NOTHING: commands run as you, on your files, with your network. It is honest
about all else: timeouts, leftovers, output limits and errors are as in the real one.
"""

import errno
import math
import os
import selectors
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from contracts.errors import SandboxLost
from contracts.sandbox import (
    FILE_LIMIT,
    Command,
    ExecResult,
    OnOutput,
    SnapshotId,
    Stream,
)
from sandbox.files import file_error
from sandbox.output import Kept
from sandbox.supervisor.frames import CHUNK
from sandbox.supervisor.tasks import open_regular


class ScriptedSandbox:
    """A `Sandbox` in a temporary directory; `answers` replaces commands by scripted results.

    A scripted answer's output is also given to `on_output`. Linux only.
    """

    def __init__(self, answers: Mapping[tuple[str, ...], ExecResult] | None = None) -> None:
        self._answers = dict(answers or {})
        self._home = Path(tempfile.mkdtemp(prefix="harness-scripted-"))
        self._work_dir = self._home / "workspace"
        self._work_dir.mkdir()
        self._snapshots = 0

    @property
    def work_dir(self) -> str:
        """Absolute path of the workspace; here, a place on this machine."""
        return str(self._work_dir)

    def exec(self, command: Command, on_output: OnOutput | None = None) -> ExecResult:
        """Answer from the script, or run argv here; see `Sandbox.exec`."""
        self._check_alive()
        scripted = self._answers.get(tuple(command.argv))
        if scripted is not None:
            _replay(scripted, on_output)
            return scripted
        cwd = self._work_dir / (command.cwd or "")
        if not cwd.is_dir() or not os.access(cwd, os.X_OK):
            return ExecResult(exit_code=126, launch_error=f"cannot work in {str(cwd)!r}")
        try:
            process = _start(command, cwd)
        except OSError as error:
            missing = isinstance(error, FileNotFoundError | NotADirectoryError)
            reason = f"cannot run {command.argv[0]!r}: {error.strerror}"
            return ExecResult(exit_code=127 if missing else 126, launch_error=reason)
        with process:
            return _follow(process, command, on_output)

    def read_file(self, path: str, limit: int = FILE_LIMIT) -> bytes:
        """Give the bytes of a regular file; see `Sandbox.read_file`."""
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

    def write_file(self, path: str, data: bytes) -> None:
        """Write the file whole; see `Sandbox.write_file`."""
        self._check_alive()
        try:
            full = Path(self._full(path))
            full.parent.mkdir(parents=True, exist_ok=True)
            fd = open_regular(str(full), self.work_dir, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        except OSError as error:
            raise _named(error, f"write {path!r}") from error
        with os.fdopen(fd, "wb") as file:
            file.write(data)

    def upload_files(self, files: Mapping[str, bytes]) -> None:
        """Write many files; see `Sandbox.upload_files`."""
        for path, data in files.items():
            self.write_file(path, data)

    def snapshot(self) -> SnapshotId:
        """Copy the workspace aside; see `Sandbox.snapshot`."""
        self._check_alive()
        self._snapshots += 1
        name = f"snapshot-{self._snapshots}"
        shutil.copytree(self._work_dir, self._home / name, symlinks=True)
        return SnapshotId(name)

    def restore(self, snapshot: SnapshotId) -> None:
        """Copy the workspace back; see `Sandbox.restore`. Processes are not ended."""
        self._check_alive()
        kept = self._home / snapshot
        if not kept.is_dir():
            raise SandboxLost(f"the snapshot {snapshot!r} is gone")
        shutil.rmtree(self._work_dir)
        shutil.copytree(kept, self._work_dir, symlinks=True)

    def teardown(self) -> None:
        """Remove the directory. Doing it twice is fine."""
        if self._home.exists():
            shutil.rmtree(self._home)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.teardown()

    def _full(self, path: str) -> str:
        return os.path.join(self.work_dir, path)  # noqa: PTH118  a Path would drop "a/./b"

    def _check_alive(self) -> None:
        if not self._work_dir.exists():
            raise SandboxLost("the sandbox was torn down")


def _start(command: Command, cwd: Path) -> "subprocess.Popen[bytes]":
    env = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(cwd), "LANG": "C.UTF-8"}
    return subprocess.Popen(
        command.argv,
        cwd=cwd,
        env={**env, **command.env},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


class _Watch:
    """One process's pipes, served in the calling thread."""

    def __init__(self, process: "subprocess.Popen[bytes]", stdin: bytes, take: OnOutput) -> None:
        self._process = process
        self._stdin = memoryview(stdin)
        self._take = take
        self._selector = selectors.DefaultSelector()
        self._pidfd = os.pidfd_open(process.pid)
        self._selector.register(self._pidfd, selectors.EVENT_READ)
        for pipe, name in self._outputs():
            os.set_blocking(pipe.fileno(), False)
            self._selector.register(pipe, selectors.EVENT_READ, (pipe, name))
        assert process.stdin is not None  # noqa: S101  it was started with a pipe
        self._input = process.stdin
        os.set_blocking(self._input.fileno(), False)
        self._selector.register(self._input, selectors.EVENT_WRITE)

    def wait(self, deadline: float) -> bool:
        """Serve until the process ends; False when the time is up first."""
        while self._process.poll() is None:
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            for key, _ in self._selector.select(min(left, 60.0)):
                if key.fileobj is self._input:
                    self._offer_input()
                elif key.data is not None and not self._read(*key.data):
                    self._selector.unregister(key.fileobj)
        return True

    def close(self) -> None:
        """Take what the pipes still hold."""
        for pipe, name in self._outputs():
            while self._read(pipe, name):
                pass
        self._selector.close()
        os.close(self._pidfd)
        self._input.close()

    def _outputs(self) -> tuple[tuple[IO[bytes], Stream], ...]:
        process = self._process
        assert process.stdout is not None  # noqa: S101  it was started with pipes
        assert process.stderr is not None  # noqa: S101
        return ((process.stdout, "stdout"), (process.stderr, "stderr"))

    def _offer_input(self) -> None:
        try:
            self._stdin = self._stdin[os.write(self._input.fileno(), self._stdin[:CHUNK]) :]
        except BrokenPipeError:
            self._stdin = self._stdin[:0]
        if not self._stdin:
            self._selector.unregister(self._input)
            self._input.close()

    def _read(self, pipe: IO[bytes], name: Stream) -> bool:
        try:
            data = os.read(pipe.fileno(), CHUNK)
        except BlockingIOError:
            return False
        if data:
            self._take(name, data)
        return bool(data)


def _follow(
    process: "subprocess.Popen[bytes]", command: Command, on_output: OnOutput | None
) -> ExecResult:
    kept = {"stdout": Kept(command.output_limit), "stderr": Kept(command.output_limit)}

    def take(stream: Stream, data: bytes) -> None:
        kept[stream].add(data)
        if on_output is not None:
            on_output(stream, data)

    start = time.monotonic()
    watch = _Watch(process, command.stdin, take)
    try:
        in_time = watch.wait(start + (command.timeout_s or math.inf))
        duration = time.monotonic() - start
    finally:
        killed = _kill_session(process.pid)
        code = process.wait()
        watch.close()
    out, err = kept["stdout"], kept["stderr"]
    return ExecResult(
        exit_code=code if code >= 0 else 128 - code,
        stdout=out.value,
        stderr=err.value,
        duration_ms=round(duration * 1000),
        timed_out=not in_time,
        truncated=out.truncated or err.truncated,
        stdout_size=out.size,
        stderr_size=err.size,
        killed_children=killed,
    )


def _kill_session(leader: int) -> int:
    """Kill all of the leader's session; how many it left behind."""
    killed: set[int] = set()
    while members := _session(leader):
        for pid in members:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        killed |= members
        time.sleep(0.001)
    return len(killed - {leader})


def _session(leader: int) -> set[int]:
    members = set()
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, _, session = entry.read_text().rpartition(")")[2].split()[:4]
            if int(session) == leader and state not in "ZX":
                members.add(int(entry.parent.name))
    return members


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
