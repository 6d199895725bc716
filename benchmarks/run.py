"""`make bench`: every figure as a ratio; `python -m benchmarks.run runs` for one part.

A number after `chaos` or `operate` is its size: `python -m benchmarks.run chaos 100 operate 200`.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from math import isnan

from benchmarks.agents import rows as agents
from benchmarks.chaos import rows as chaos
from benchmarks.events import rows as events
from benchmarks.gateway import rows as gateway
from benchmarks.learning import rows as learning
from benchmarks.memory import rows as memory
from benchmarks.operate import rows as operate
from benchmarks.pages import rows as pages
from benchmarks.policy import rows as policy
from benchmarks.row import Row
from benchmarks.runs import rows as runs
from benchmarks.sandbox import rows as sandbox

PARTS: Mapping[str, Callable[[], Iterator[Row]]] = {
    "runs": runs.rows,
    "sandbox": sandbox.rows,
    "gateway": gateway.rows,
    "agents": agents.rows,
    "events": events.rows,
    "memory": memory.rows,
    "learning": learning.rows,
    "policy": policy.rows,
    "pages": pages.rows,
    "operate": operate.rows,
    "chaos": chaos.rows,
}

SIZED: Mapping[str, Callable[[int], Iterator[Row]]] = {"operate": operate.rows, "chaos": chaos.rows}


def main() -> None:
    """Print the rows of the parts that are named, or of all."""
    parts = wanted(sys.argv[1:])
    print(f"{'what':<44}{'ours':>12}{'baseline':>12}{'ratio':>8}  target")
    for rows in parts:
        for row in rows():
            print(_line(row), flush=True)


def wanted(words: Sequence[str]) -> list[Callable[[], Iterator[Row]]]:
    """The parts that are named, each with the number after it; all where none is."""
    return list(_named(words)) or list(PARTS.values())


def _named(words: Sequence[str]) -> Iterator[Callable[[], Iterator[Row]]]:
    for word, after in pairwise((*words, "")):
        if word in SIZED and after.isdigit():
            yield partial(SIZED[word], int(after))
        elif word in PARTS:
            yield PARTS[word]
        elif not word.isdigit():
            sys.exit(f"no part {word!r}; there are {', '.join(PARTS)}")


def _line(row: Row) -> str:
    note = f"  ({row.note})" if row.note else ""
    if isnan(row.ratio):
        return f"{row.name:<44}{'-':>12}{'-':>12}{'-':>8}  {row.target}{note}"
    ours, baseline = (f"{value:.4g} {row.unit}" for value in (row.ours, row.baseline))
    return f"{row.name:<44}{ours:>12}{baseline:>12}{row.ratio:>8.3f}  {row.target}{note}"


if __name__ == "__main__":
    main()
