"""All rows about memory; a size or a length of time is what each takes."""

from collections.abc import Iterator

from benchmarks.memory import contention, injection, peers, relevance, retrieval, surface
from benchmarks.row import Row

SIZE = 10_000


def rows(size: int = SIZE) -> Iterator[Row]:
    """Finding, speed with up to `size` playbooks, and what is lost.

    The full size is 100,000; filling that store takes most of ten minutes.
    """
    yield from retrieval.rows()
    yield from surface.rows(size)
    yield from peers.rows()
    yield from relevance.rows()
    yield from injection.rows()
    yield from contention.rows()
