"""Random names that a home gets at first use."""

import os
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from threading import get_ident

from flows.runs.home import create_home


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
