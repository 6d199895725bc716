"""Reading and writing files of a sandbox through the supervisor."""

import posixpath
from collections.abc import Mapping

from contracts.errors import (
    SandboxFileDenied,
    SandboxFileError,
    SandboxFileMissing,
    SandboxFileTooLarge,
    SandboxLost,
    SandboxNotAFile,
)
from contracts.sandbox import OpenInput
from sandbox import wire
from sandbox.supervisor.frames import CHUNK, STDERR, STDOUT
from sandbox.supervisor_client import SupervisorClient

_TIMEOUT_S = 300.0
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
    return _call(link, request, b"", wanted=f"read {path!r}", limit=limit)


def write_files(link: SupervisorClient, root: str, files: Mapping[str, bytes]) -> None:
    """Write all files; raises as `Sandbox.write_file`."""
    sizes = [(posixpath.join(root, path), len(data)) for path, data in files.items()]
    request = {"task": "write", "files": sizes, "root": root}
    wanted = f"write {', '.join(map(repr, files))}" if len(files) < 4 else "write files"
    _call(link, request, b"".join(files.values()), wanted=wanted)


def file_error(name: str, wanted: str, found: str) -> SandboxFileError:
    """Return the error for an errno name such as ENOENT."""
    return _ERRORS.get(name, SandboxFileError)(f"wanted to {wanted}: {found}")


def _call(
    link: SupervisorClient,
    request: Mapping[str, object],
    data: bytes,
    *,
    wanted: str,
    limit: int = 0,
) -> bytes:
    """Return the output of a task; its standard error is an error as a JSON object."""
    received = {STDOUT: bytearray(), STDERR: bytearray()}
    room = {STDOUT: limit + CHUNK, STDERR: CHUNK}

    def receive(kind: int, chunk: bytes) -> None:
        if len(received[kind]) + len(chunk) > room[kind]:
            raise SandboxLost(f"wanted to {wanted}: the supervisor sends more than was asked for")
        received[kind] += chunk

    report = link.call(request, OpenInput.whole(data), receive, timeout_s=_TIMEOUT_S)
    if received[STDERR]:
        failure = wire.parse_report(received[STDERR])
        raise file_error(failure.errno or "", wanted, failure.error or "it gave no reason")
    if report.exit_code != 0:
        killed = "the transfer took too long, or was killed"
        full = "the sandbox's files take more than its disk limit"
        found = report.launch_error or (full if report.out_of_disk else killed)
        raise SandboxFileError(f"wanted to {wanted}: {found}")
    return bytes(received[STDOUT])
