"""Creating and checking `HARNESS_HOME`, and writing files of a run there."""

from pathlib import Path
from tempfile import TemporaryDirectory

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
            f"nothing can be kept in {home}: {error.strerror}. Mend it, or choose another "
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
            f"{path} cannot be written: {error.strerror}. Make room there; "
            f"`harness runs resume {run_id}` then goes on"
        ) from error
