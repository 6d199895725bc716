"""Surface: embed the query, ask both arms, fuse, render; at 1k, 10k and 100k playbooks."""

import random
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import quantiles
from time import perf_counter
from typing import NamedTuple

from benchmarks.memory import corpus
from benchmarks.row import Row
from memory.playbooks.library import Library, open_library
from memory.playbooks.render import render_playbooks
from memory.types import Embedder, PlaybookContent, PlaybookQuery
from providers import minilm

SIZES = (1_000, 10_000, 100_000)
ROUNDS = 300


class Times(NamedTuple):
    """Milliseconds."""

    p50: float
    p99: float


def rows(largest: int) -> Iterator[Row]:
    """Each size up to this one against its own query embedding, and the growth."""
    sizes = [one for one in SIZES if one <= largest]
    made = corpus.contents(max(sizes))
    vectors = corpus.vectors(made)
    by_size: dict[int, Times] = {}
    for size in sizes:
        embedding, times = _measure(size, made, vectors)
        by_size[size] = times
        target = {10_000: ("25", "80"), 100_000: ("60", "-")}.get(size, ("-", "-"))
        for name, ours, bound in (("p50", times.p50, target[0]), ("p99", times.p99, target[1])):
            yield Row(
                name=f"memory surface {name} at {size:,}",
                ours=ours,
                baseline=embedding.p50,
                ratio=ours / embedding.p50,
                target="none" if bound == "-" else f"at most {bound} ms",
                unit="ms",
                note="baseline: embedding the query alone, p50",
            )
    few, many = by_size[sizes[0]].p50, by_size[sizes[-1]].p50
    yield Row(
        name=f"memory surface p50, {sizes[-1]:,} against {sizes[0]:,}",
        ours=many,
        baseline=few,
        ratio=many / few,
        target="below 4",
        unit="ms",
    )


def _measure(
    size: int, made: list[PlaybookContent], vectors: list[corpus.Floats]
) -> tuple[Times, Times]:
    with tempfile.TemporaryDirectory(prefix="harness-bench-") as folder:
        home = Path(folder)
        model = Embedder(name=minilm.NAME, embed=minilm.embed)
        with open_library(home / "harness.db", index=home / "index", embedder=model) as library:
            corpus.fill(library, made[:size], vectors[:size])
            queries = _queries(ROUNDS + 20)
            for query in queries[:20]:
                _surface(library, query)
            embedding = [timed(partial(minilm.embed, [query])) for query in queries[20:]]
            surfacing = [timed(partial(_surface, library, query)) for query in queries[20:]]
    return times(embedding), times(surfacing)


def _surface(library: Library, text: str) -> None:
    query = PlaybookQuery(text=text, limit=5, confidence_weight=0.3)
    rendered = render_playbooks(library.search_with_context(query), budget_tokens=2_000)
    assert rendered.playbook_ids, text


def _queries(count: int) -> list[str]:
    lot = random.Random(7)  # noqa: S311 - the same lots each time, no secret
    return [
        f"please {lot.choice(corpus.VERBS)} our {lot.choice(corpus.THINGS)} on "
        f"{lot.choice(corpus.PLACES)} {lot.choice(corpus.WHEN)}"
        for _ in range(count)
    ]


def timed(call: Callable[[], object]) -> float:
    started = perf_counter()
    call()
    return (perf_counter() - started) * 1_000


def times(all_ms: list[float]) -> Times:
    cuts = quantiles(all_ms, n=100)
    return Times(p50=cuts[49], p99=cuts[98])
