"""The home: whether what Harness keeps can be kept there, and writing what a run needs."""

from pathlib import Path
from tempfile import TemporaryDirectory

from contracts.errors import HomeUnavailable
from contracts.files import write_atomically


def create_home(home: Path) -> None:
    """Have a home that things can be kept in; a new one is for this user only.

    Raises:
        HomeUnavailable: as `check_home`.
    """
    check_home(home)
    home.mkdir(mode=0o700, parents=True, exist_ok=True)


def check_home(home: Path) -> None:
    """Refuse a home that nothing can be kept in. One that is not there yet is not made.

    Raises:
        HomeUnavailable: it is no folder, cannot be made, or cannot be written.
    """
    try:
        there = next(p for p in (home, *home.parents) if p.is_symlink() or p.exists())
        with TemporaryDirectory(prefix=".harness-", dir=there):
            pass
    except OSError as error:
        raise HomeUnavailable(
            f"nothing can be kept in {home}: {error.strerror}. Mend it, or choose another "
            "HARNESS_HOME"
        ) from error


def write_in_home(path: Path, text: str, *, run_id: str) -> None:
    """Write a file of this run whole, for this user only: an address in it may hold a password.

    Raises:
        HomeUnavailable: it cannot be written; the old one is still there.
    """
    try:
        write_atomically(path, text, private=True)
    except OSError as error:
        raise HomeUnavailable(
            f"{path} cannot be written: {error.strerror}. Make room there; "
            f"`harness runs resume {run_id}` then goes on"
        ) from error
