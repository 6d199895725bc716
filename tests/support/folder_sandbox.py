"""A sandbox that is a folder and a plain process: no isolation, for these tests only."""

import os
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from contracts.errors import SandboxFileMissing, SandboxNotAFile
from contracts.sandbox import DEFAULT_FILE_LIMIT, Command, Connect, ExecResult, OnOutput, SnapshotId


class FolderSandbox:
    def __init__(self, root: Path) -> None:
        self._root = root

    @property
    def work_dir(self) -> str:
        return str(self._root)

    def exec(self, command: Command, on_output: OnOutput | None = None) -> ExecResult:
        began = time.monotonic()
        try:
            done = subprocess.run(
                command.argv,
                cwd=self._root,
                env={**os.environ, **command.env},
                capture_output=True,
                timeout=command.timeout_s,
                check=False,
            )
        except FileNotFoundError as error:
            return ExecResult(exit_code=127, launch_error=str(error))
        except subprocess.TimeoutExpired as error:
            spent = round((time.monotonic() - began) * 1000)
            stdout = error.stdout or b""
            return ExecResult(exit_code=137, timed_out=True, stdout=stdout, duration_ms=spent)
        return ExecResult(exit_code=done.returncode, stdout=done.stdout, stderr=done.stderr)

    def read_file(self, path: str, limit: int = DEFAULT_FILE_LIMIT) -> bytes:
        found = self._root / path
        if found.is_dir():
            raise SandboxNotAFile(f"{path!r} is a directory")
        if not found.exists():
            raise SandboxFileMissing(f"no file {path!r}")
        return found.read_bytes()

    def write_file(self, path: str, data: bytes) -> None:
        target = self._root / path
        if target.is_dir():
            raise SandboxNotAFile(f"{path!r} is a directory")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)

    def upload_files(self, files: Mapping[str, bytes]) -> None:
        for path, data in files.items():
            self.write_file(path, data)

    def forward(self, port: int, connect: Connect) -> int:
        raise NotImplementedError

    def snapshot(self) -> SnapshotId:
        raise NotImplementedError

    def restore(self, snapshot: SnapshotId) -> None:
        raise NotImplementedError

    def teardown(self) -> None:
        pass
