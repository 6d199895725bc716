"""Stores as the migrations leave them, copied: making one anew takes longer than most tests."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from memory.database import open_database


def new_store(path: Path) -> Path:
    """An empty SQLite store at `path`, unless one is there."""
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(_empty())
    return path


@cache
def _empty() -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder, "harness.db")
        open_database(path).dispose()
        return path.read_bytes()
