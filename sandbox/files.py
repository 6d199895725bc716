"""Reading and writing files of a sandbox through the supervisor."""

import posixpath
from collections.abc import Iterable, Iterator, Mapping
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from contracts.errors import (
    SandboxFileDenied,
    SandboxFileError,
    SandboxFileMissing,
    SandboxFileTooLarge,
    SandboxLost,
    SandboxNotAFile,
)
from contracts.sandbox import FileContent, OpenInput
from sandbox import wire
from sandbox.supervisor.frames import CHUNK, STDERR, STDOUT
from sandbox.supervisor_client import SupervisorClient

_TIMEOUT_S = 300.0
_SLOWEST = 1 << 20
"""Bytes per second that a busy machine writes at least: larger files get more time."""
_ERRORS: Mapping[str, type[SandboxFileError]] = {
    "ENOENT": SandboxFileMissing,
    "EACCES": SandboxFileDenied,
    "EPERM": SandboxFileDenied,
    "EROFS": SandboxFileDenied,
    "EISDIR": SandboxNotAFile,
    "ELOOP": SandboxNotAFile,
    "ENODEV": SandboxNotAFile,
    "ENOTDIR": SandboxNotAFile,
    "EEXIST": SandboxNotAFile,
    "ENXIO": SandboxNotAFile,
    "EFBIG": SandboxFileTooLarge,
}


def read_file(link: SupervisorClient, root: str, path: str, *, limit: int) -> bytes:
    """Return the bytes of a file; raises as `Sandbox.read_file`."""
    full = posixpath.join(root, path)
    request = {"task": "read", "path": full, "root": root, "limit": limit}
    return _call(link, request, OpenInput.whole(b""), wanted=f"read {path!r}", limit=limit)


def write_files(link: SupervisorClient, root: str, files: Mapping[str, FileContent]) -> None:
    """Write all files; raises as `Sandbox.write_file`."""
    sizes = [(posixpath.join(root, path), _size(content)) for path, content in files.items()]
    request = {"task": "write", "files": sizes, "root": root}
    wanted = f"write {', '.join(map(repr, files))}" if len(files) < 4 else "write files"
    timeout_s = _TIMEOUT_S + sum(size for _, size in sizes) / _SLOWEST
    _call(link, request, _Contents(files.values()), wanted=wanted, timeout_s=timeout_s)


def open_content(content: FileContent) -> BinaryIO:
    """Open what is to be written, for reading.

    Raises:
        OSError: the file of the host cannot be read.
    """
    return content.open("rb") if isinstance(content, Path) else BytesIO(content)


class _Contents(OpenInput):
    """The contents of files one after the other, each read when the sandbox has room for more."""

    def __init__(self, contents: Iterable[FileContent]) -> None:
        super().__init__()
        self._pieces = _pieces(contents)

    def take(self, size: int) -> bytes:
        while len(self._waiting) < size and not self.closed:
            piece = next(self._pieces, None)
            if piece is None:
                self.close()
            else:
                self.write(piece)
        return super().take(size)


def _pieces(contents: Iterable[FileContent]) -> Iterator[bytes]:
    for content in contents:
        with open_content(content) as file:
            while piece := file.read(CHUNK):
                yield piece


def _size(content: FileContent) -> int:
    return content.stat().st_size if isinstance(content, Path) else len(content)


def file_error(name: str, wanted: str, found: str) -> SandboxFileError:
    """Return the error for an errno name such as ENOENT."""
    return _ERRORS.get(name, SandboxFileError)(f"wanted to {wanted}: {found}")


def _call(
    link: SupervisorClient,
    request: Mapping[str, object],
    data: OpenInput,
    *,
    wanted: str,
    limit: int = 0,
    timeout_s: float = _TIMEOUT_S,
) -> bytes:
    """Return the output of a task; its standard error is an error as a JSON object."""
    received = {STDOUT: bytearray(), STDERR: bytearray()}
    room = {STDOUT: limit + CHUNK, STDERR: CHUNK}

    def receive(kind: int, chunk: bytes) -> None:
        if len(received[kind]) + len(chunk) > room[kind]:
            raise SandboxLost(f"wanted to {wanted}: the supervisor sends more than was asked for")
        received[kind] += chunk

    report = link.call(request, data, receive, timeout_s)
    if received[STDERR]:
        failure = wire.parse_report(received[STDERR])
        raise file_error(failure.errno or "", wanted, failure.error or "it gave no reason")
    if report.exit_code != 0:
        killed = "the transfer took too long, or was killed"
        full = "the sandbox's files take more than its disk limit"
        found = report.launch_error or (full if report.out_of_disk else killed)
        raise SandboxFileError(f"wanted to {wanted}: {found}")
    return bytes(received[STDOUT])
