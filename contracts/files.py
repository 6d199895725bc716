"""Paths and files on the host."""

import os
import shutil
from contextlib import suppress
from pathlib import Path


def existing_path(text: str) -> Path | None:
    """Return the absolute path if something exists there, else None. `~` is expanded."""
    try:
        path = Path(text).expanduser().resolve()
        return path if path.exists() else None
    except (OSError, RuntimeError, ValueError):  # too long, an unknown user's home, a NUL
        return None


def write_atomically(path: Path, text: str, *, private: bool = False) -> None:
    """Replace the file in one step: readers see the old text or the new text, never a part.

    A `private` file can be read by this user only; otherwise a replaced file keeps its mode.
    If `path` is a link, the link's target is replaced.

    Raises:
        OSError: the file cannot be written; the old one is unchanged.
    """
    target = path.resolve()
    part = target.with_suffix(".part")
    try:
        part.unlink(missing_ok=True)  # a leftover file could be readable by other users
        part.touch(mode=0o600 if private else 0o666)
        # Text from git and names of files may hold bytes that are not UTF-8.
        with part.open("w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)
            if not target.exists():
                # ext4 flushes the data before a rename that replaces a file, but not otherwise.
                file.flush()
                os.fsync(file.fileno())
            elif not private:
                shutil.copymode(target, part)
        part.replace(target)
    except OSError:
        with suppress(OSError):  # the first error is the one to report
            part.unlink(missing_ok=True)
        raise
