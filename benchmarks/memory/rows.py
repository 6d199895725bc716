"""All rows about memory; a size or a length of time is what each takes."""

from collections.abc import Iterator

from benchmarks.memory import contention, injection, peers, relevance, retrieval, surface
from benchmarks.row import Row


def rows() -> Iterator[Row]:
    """Finding, speed, and what is lost; about ten minutes, most of it spent filling stores."""
    yield from retrieval.rows()
    yield from surface.rows()
    yield from peers.rows()
    yield from relevance.rows()
    yield from injection.rows()
    yield from contention.rows()
