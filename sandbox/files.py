"""Files of a sandbox, read and written by the supervisor's tasks."""

import posixpath
from collections.abc import Mapping

from contracts.errors import (
    SandboxFileDenied,
    SandboxFileError,
    SandboxFileMissing,
    SandboxFileTooLarge,
    SandboxNotAFile,
)
from sandbox.link import Link

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


def read(link: Link, root: str, path: str, *, limit: int) -> bytes:
    """The file's bytes; errors as `Sandbox.read_file` has them."""
    data = bytearray()
    full = posixpath.join(root, path)
    request = {"task": "read", "path": full, "root": root, "limit": limit}
    report = link.call(request, b"", lambda _, chunk: data.extend(chunk), _TIMEOUT_S)
    _check(report, f"read {path!r}")
    return bytes(data)


def write(link: Link, root: str, files: Mapping[str, bytes]) -> None:
    """Write all files; errors as `Sandbox.write_file` has them."""
    sizes = [(posixpath.join(root, path), len(data)) for path, data in files.items()]
    request = {"task": "write", "files": sizes, "root": root}
    report = link.call(request, b"".join(files.values()), _ignore, _TIMEOUT_S)
    _check(report, f"write {', '.join(map(repr, files))}" if len(files) < 4 else "write files")


def file_error(name: str, wanted: str, found: str) -> SandboxFileError:
    """The named error for an errno name such as ENOENT."""
    return _ERRORS.get(name, SandboxFileError)(f"wanted to {wanted}: {found}")


def _check(report: Mapping[str, object], wanted: str) -> None:
    if "errno" in report:
        raise file_error(str(report["errno"]), wanted, str(report["error"]))
    if report.get("exit_code") != 0:
        found = report.get("launch_error") or "the file was not done in time, or was killed"
        raise SandboxFileError(f"wanted to {wanted}: {found}")


def _ignore(_kind: int, _data: bytes) -> None:
    """Writing a file prints nothing."""
