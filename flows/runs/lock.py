"""Locks that show which process executes a run. The kernel releases them when the process ends."""

from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import LOCK_EX, LOCK_NB, LOCK_SH, flock
from pathlib import Path

from contracts.errors import RunNotResumable
from flows.runs.layout import LOCK, TURN


@contextmanager
def run_lock(folder: Path, run_id: str) -> Iterator[None]:
    """Hold the lock of a run until the block or this process ends.

    Raises:
        RunNotResumable: another process holds the lock.
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
    """Show that this process waits to execute the run, until the block or the process ends."""
    with file_lock(own / TURN):
        yield


def is_abandoned(own: Path) -> bool:
    """Return True if no process executes the run or waits for it, also after a reboot.

    Return False if the lock file cannot be examined.
    """
    return not any(is_locked(own / name) for name in (LOCK, TURN))


@contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Hold a shared lock on a file until the block or this process ends."""
    path.touch()
    with path.open("r+") as file:  # NFS: a shared lock needs a file opened for reading
        flock(file, LOCK_SH)
        yield


def is_locked(path: Path) -> bool:
    """Return True if a process, here or on another host, holds a lock on this file."""
    try:
        with path.open("r+") as lock:  # NFS: a lock needs a file opened for writing
            flock(lock, LOCK_EX | LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False
