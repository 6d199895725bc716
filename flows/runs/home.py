"""`HARNESS_HOME`: creating and checking it, its owner name, writing files there."""

import os
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory
from threading import get_ident

from contracts.errors import HomeUnavailable
from contracts.files import write_atomically


def create_home(home: Path) -> None:
    """Create the home if it is missing, readable by this user only.

    Raises:
        HomeUnavailable: as `check_home`.
    """
    check_home(home)
    home.mkdir(mode=0o700, parents=True, exist_ok=True)


def check_home(home: Path) -> None:
    """Check that the home can be written, without creating it.

    Raises:
        HomeUnavailable: it is no folder, cannot be created, or cannot be written.
    """
    try:
        there = next(p for p in (home, *home.parents) if p.is_symlink() or p.exists())
        with TemporaryDirectory(prefix=".harness-", dir=there):
            pass
    except OSError as error:
        raise HomeUnavailable(
            f"cannot write in {home}: {error.strerror}. Fix its permissions, or choose another "
            "HARNESS_HOME"
        ) from error


def write_in_home(path: Path, text: str, *, run_id: str) -> None:
    """Write a file of a run atomically. Only this user may read it: an address may hold a password.

    Raises:
        HomeUnavailable: it cannot be written. The old file is unchanged.
    """
    try:
        write_atomically(path, text, private=True)
    except OSError as error:
        raise HomeUnavailable(
            f"{path} cannot be written: {error.strerror}. Free some space, then run "
            f"`harness runs resume {run_id}`"
        ) from error


def home_owner(home: Path) -> str:
    """Return the name of this home, used as the owner of its containers, approvals and events."""
    return read_or_create(home / "owner", token_hex(8))


def read_or_create(path: Path, text: str) -> str:
    """Return the content of the file; create it with `text` for this user only if it is missing.

    If several processes create it at once, all of them return the same content.

    Raises:
        HomeUnavailable: the folder cannot be written.
    """
    if not path.exists():
        create_home(path.parent)
        part = path.with_name(f"{path.name}.{os.getpid()}.{get_ident()}")
        part.touch(mode=0o600)
        part.write_text(text)
        with suppress(FileExistsError):
            path.hardlink_to(part)
        part.unlink()
    return path.read_text()
