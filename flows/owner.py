"""Whose runs, containers and events these are: one name for each HARNESS_HOME."""

from contextlib import suppress
from pathlib import Path
from secrets import token_hex


def owner_of(home: Path) -> str:
    """The name of this home, made at first use."""
    path = home / "owner"
    with suppress(FileExistsError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x") as file:
            file.write(token_hex(8))
    return path.read_text()
