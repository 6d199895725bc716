"""The folder that Chroma's own folder lies in: a lock, a generation, and a mark of doubt.

The mark stands while Chroma is opened or written. A process that finds it left there does not
know what state a dead one left behind, or whether it died of it.
"""

import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from subprocess import TimeoutExpired, run
from uuid import uuid4

from contracts.files import write_atomically
from memory.database import acquire_lock
from memory.vectors.chroma import VectorIndexUnavailable

LOCK_TIMEOUT_S = 10.0
"""How long who wants to use the folder waits for others that do."""


class VectorFolder:
    """Where the vectors of a home lie. All but `locked` is for who has locked it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Alone in it, of all threads and processes; it is made when it is not there.

        Raises:
            VectorsAway: it cannot be written, or another does not let go of it.
        """
        with ExitStack() as held:
            with _writable():
                self.path.mkdir(parents=True, exist_ok=True)
                lock = held.enter_context((self.path / "lock").open("w"))
                if not acquire_lock(lock, LOCK_TIMEOUT_S):
                    raise VectorIndexUnavailable(
                        f"another process has held the vector index in {self.path} for "
                        f"{LOCK_TIMEOUT_S:g} s: end it if it hangs or was stopped"
                    )
            yield

    @property
    def data(self) -> Path:
        """Chroma's own."""
        current = self.path / "current"
        return self.path / ((current.read_text() if current.exists() else "") or "chroma")

    @property
    def generation(self) -> str:
        """Another after each write, by whomever; empty before the first."""
        path = self.path / "generation"
        return path.read_text() if path.exists() else ""

    @property
    def is_suspect(self) -> bool:
        """Whether who used it last died meanwhile."""
        return self._mark.exists()

    def mark_suspect(self) -> None:
        """Mark that what comes now may be the end of this process."""
        with _writable():
            self._mark.touch()

    def clear_suspicion(self) -> None:
        """Take the mark away."""
        with _writable():
            self._mark.unlink(missing_ok=True)

    def new_generation(self) -> str:
        """A new generation. Before the write: a writer that dies must be noticed as well."""
        new = uuid4().hex
        with _writable():
            write_atomically(self.path / "generation", new)
        return new

    def discard_data(self) -> str:
        """Throw away what Chroma has; gives the new generation."""
        with _writable():
            shutil.rmtree(self.data, ignore_errors=True)
            # A new name: chromadb remembers a folder that it failed to open, and fails again.
            write_atomically(self.path / "current", f"chroma-{uuid4().hex[:8]}")
        generation = self.new_generation()
        self.clear_suspicion()
        return generation

    def has_graph(self) -> bool:
        """Whether Chroma has a graph in it, which it maps into memory as it finds it."""
        return any(self.data.glob("*/data_level0.bin"))

    @property
    def _mark(self) -> Path:
        return self.path / "writing"


def is_intact(data: Path, *, timeout_s: float = 300.0) -> bool:
    """Whether Chroma opens this folder and finds its records; tried in a process of its own."""
    argv = (sys.executable, "-P", "-m", "memory.vectors.chroma_probe", str(data))
    try:
        tried = run(argv, check=False, capture_output=True, timeout=timeout_s)
    except TimeoutExpired:
        return False
    return tried.returncode == 0


@contextmanager
def _writable() -> Iterator[None]:
    """Around what is done with files of our own: where they cannot be written, none can."""
    try:
        yield
    except OSError as error:
        raise VectorIndexUnavailable(f"the vector index cannot be written: {error}") from error
