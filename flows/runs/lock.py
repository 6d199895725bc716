"""That one process alone does a run, and whether any does, told by locks that end with it."""

from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import LOCK_EX, LOCK_NB, LOCK_SH, flock
from pathlib import Path

from contracts.errors import RunNotResumable
from flows.runs.layout import LOCK, TURN


@contextmanager
def run_lock(folder: Path, run_id: str) -> Iterator[None]:
    """Keep every other process from doing this run, until the block or this process ends.

    Raises:
        RunNotResumable: another process is doing it.
    """
    own = folder / run_id
    own.mkdir(parents=True, exist_ok=True)
    with (own / LOCK).open("w") as lock:
        try:
            flock(lock, LOCK_EX | LOCK_NB)
        except BlockingIOError as error:
            raise RunNotResumable(f"run {run_id} is running: another process does it") from error
        yield


@contextmanager
def queue_lock(own: Path) -> Iterator[None]:
    """Show that a process waits for its turn to do this run, until the block or it ends."""
    with file_lock(own / TURN):
        yield


def is_abandoned(own: Path) -> bool:
    """Whether no process does this run, nor waits for its turn to: also after a reboot.

    Where nobody can tell, one may.
    """
    return not any(is_locked(own / name) for name in (LOCK, TURN))


@contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Lock a file for others to see, who may do so too, until the block or this process ends."""
    path.touch()
    with path.open("r+") as file:  # NFS shares no lock on what is not open to be read
        flock(file, LOCK_SH)
        yield


def is_locked(path: Path) -> bool:
    """Whether a process holds a lock on this file, also one of elsewhere."""
    try:
        with path.open("r+") as lock:  # NFS locks nothing that is not open to be written
            flock(lock, LOCK_EX | LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False
