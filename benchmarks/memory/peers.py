"""Adding and searching against mem0: the same texts, the same Chroma, the same vectors."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import NamedTuple

from benchmarks.memory import corpus
from benchmarks.row import Row
from memory.playbooks.library import open_library
from memory.types import Embedder, PlaybookQuery
from providers import minilm

ADDED = 1_000
SEARCHES = 200


class Taken(NamedTuple):
    """Milliseconds: the mean of an add, so that what is put off counts; the median of a search.

    Both are with the embedding, and without it: that part is the same for both.
    """

    add_ms: float
    search_ms: float
    bare_add_ms: float
    bare_search_ms: float


class Stopwatch:
    """The local model, and the seconds that were spent in it."""

    def __init__(self) -> None:
        self.spent_s = 0.0

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """As `minilm.embed`."""
        began = perf_counter()
        made = minilm.embed(texts)
        self.spent_s += perf_counter() - began
        return made


def rows() -> Iterator[Row]:
    """Ours against mem0's, one after the other on the same machine."""
    ours, theirs = _ours(), _mem0()
    note = f"baseline: mem0 with the same Chroma and vectors, {ADDED:,} texts"
    for name, a, b in (
        ("search", ours.search_ms, theirs.search_ms),
        ("search, embedding aside,", ours.bare_search_ms, theirs.bare_search_ms),
        ("add", ours.add_ms, theirs.add_ms),
        ("add, embedding aside,", ours.bare_add_ms, theirs.bare_add_ms),
    ):
        yield Row(
            name=f"memory {name} against mem0",
            ours=a,
            baseline=b,
            ratio=a / b,
            target="at most 0.33",
            unit="ms",
            note=note,
        )


def measured(
    add: Callable[[str], object],
    search: Callable[[str], int],
    model: Stopwatch,
    texts: Sequence[str],
) -> Taken:
    """Add a thousand texts, then search for others; the first search may finish the adding."""
    search(texts[0])

    def fill() -> int:
        for text in texts[:ADDED]:
            add(text)
        return search(texts[0])

    added = _timed(fill, model)
    searched = [_timed(partial(search, text), model) for text in texts[ADDED:][:SEARCHES]]
    return Taken(
        add_ms=added.whole / ADDED,
        search_ms=median(one.whole for one in searched),
        bare_add_ms=added.bare / ADDED,
        bare_search_ms=median(one.bare for one in searched),
    )


class _Time(NamedTuple):
    whole: float
    bare: float


def _timed(call: Callable[[], int], model: Stopwatch) -> _Time:
    """Milliseconds with and without the model's part."""
    began, embedded = perf_counter(), model.spent_s
    assert call(), "nothing was found"
    whole = perf_counter() - began
    return _Time(whole * 1_000, (whole - (model.spent_s - embedded)) * 1_000)


def _ours() -> Taken:
    made = corpus.contents(2 * ADDED)
    by_text = {corpus.text(content): content for content in made}
    watch = Stopwatch()
    model = Embedder(name=minilm.NAME, embed=watch.embed)
    with tempfile.TemporaryDirectory(prefix="harness-bench-") as folder:
        home = Path(folder)
        with open_library(home / "harness.db", index=home / "index", embedder=model) as library:
            return measured(
                lambda text: library.create(by_text[text]),
                lambda text: len(
                    library.search(PlaybookQuery(text=text, limit=5, max_distance=2.0))
                ),
                watch,
                list(by_text),
            )


def _mem0() -> Taken:
    with tempfile.TemporaryDirectory(prefix="harness-bench-") as folder:
        argv = (sys.executable, "-m", "benchmarks.memory.mem0_peer", folder)
        told = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    return Taken(**json.loads(told.splitlines()[-1]))
