"""The folder around Chroma's own folder: its lock, its generation, and a mark of unfinished use.

The mark exists while a process opens or writes Chroma's folder. A process that finds it knows
that another one died meanwhile, so the data may be damaged.
"""

import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from subprocess import TimeoutExpired, run
from uuid import uuid4

from contracts.files import write_atomically
from memory.lock_file import acquire_lock
from memory.vectors.chroma import VectorIndexUnavailable

LOCK_TIMEOUT_S = 10.0


class VectorFolder:
    """The files around one Chroma folder. Every method needs the lock that `locked` takes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._mark = path / "writing"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep all other threads and processes out until the block ends; create the folder.

        Raises:
            VectorIndexUnavailable: it cannot be written, or another process keeps the lock.
        """
        with ExitStack() as held:
            with _translated_errors():
                self.path.mkdir(parents=True, exist_ok=True)
                lock = held.enter_context((self.path / "lock").open("w"))
                if not acquire_lock(lock, LOCK_TIMEOUT_S):
                    raise VectorIndexUnavailable(
                        f"another process has locked the vector index in {self.path} for "
                        f"{LOCK_TIMEOUT_S:g} s: end it if it hangs or was stopped"
                    )
            yield

    @property
    def data(self) -> Path:
        """Chroma's own folder."""
        current = self.path / "current"
        return self.path / ((current.read_text() if current.exists() else "") or "chroma")

    @property
    def generation(self) -> str:
        """A text that every write by any process replaces; empty before the first."""
        path = self.path / "generation"
        return path.read_text() if path.exists() else ""

    @property
    def is_suspect(self) -> bool:
        """Whether a process died while it opened or wrote the data."""
        return self._mark.exists()

    def mark_suspect(self) -> None:
        """Set the mark, before the data is opened or written."""
        with _translated_errors():
            self._mark.touch()

    def clear_suspicion(self) -> None:
        """Remove the mark."""
        with _translated_errors():
            self._mark.unlink(missing_ok=True)

    def new_generation(self) -> str:
        """Replace the generation, before a write, so that a writer that dies is noticed too."""
        new = uuid4().hex
        with _translated_errors():
            write_atomically(self.path / "generation", new)
        return new

    def discard_data(self) -> str:
        """Delete Chroma's folder and return the new generation."""
        with _translated_errors():
            shutil.rmtree(self.data, ignore_errors=True)
            # A new name: chromadb remembers a folder that it failed to open, and fails again.
            write_atomically(self.path / "current", f"chroma-{uuid4().hex[:8]}")
        generation = self.new_generation()
        self.clear_suspicion()
        return generation

    def has_graph(self) -> bool:
        """Return whether the data contains a graph, which can crash the process that opens it."""
        return any(self.data.glob("*/data_level0.bin"))


def is_intact(data: Path, *, timeout_s: float = 300.0) -> bool:
    """Return whether another process can open this Chroma folder and find its records."""
    argv = (sys.executable, "-P", "-m", "memory.vectors.chroma_probe", str(data))
    try:
        return run(argv, check=False, capture_output=True, timeout=timeout_s).returncode == 0
    except TimeoutExpired:
        return False


@contextmanager
def _translated_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise VectorIndexUnavailable(f"the vector index cannot be written: {error}") from error
