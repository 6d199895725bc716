"""Names that a home gives itself at first use, whichever process comes first."""

import os
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from threading import get_ident

from flows.runs.home import create_home


def home_owner(home: Path) -> str:
    """Whose runs, containers and events these are: one name for each HARNESS_HOME."""
    return read_or_create(home / "owner", token_hex(8))


def read_or_create(path: Path, text: str) -> str:
    """What the file holds; `text`, for this user's eyes only, when there was none.

    Nobody sees half of it: of several processes that come first, one's text holds for all.

    Raises:
        HomeUnavailable: it cannot be kept there.
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
