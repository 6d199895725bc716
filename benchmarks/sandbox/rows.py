"""All figures of the sandbox."""

from collections.abc import Iterator

from benchmarks.row import Row
from benchmarks.sandbox import bombs, files, kills, load, peers, speed


def rows() -> Iterator[Row]:
    """Measure all, one row as soon as it is known."""
    for part in (speed, files, peers, load, kills, bombs):
        yield from part.rows()


def loaded_rows() -> Iterator[Row]:
    """Measure what is worth measuring on a loaded machine too."""
    for part in (speed, files, bombs):
        yield from part.rows()
