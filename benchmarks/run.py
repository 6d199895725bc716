"""`make bench`: every figure as a ratio; `python -m benchmarks.run runs` for one part.

A number after `chaos`, `memory` or `operate` is its size: `python -m benchmarks.run chaos 100`.
"""

import sys
import traceback
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from math import isnan, nan
from pathlib import Path
from time import monotonic

from benchmarks.agents import rows as agents
from benchmarks.busy import COUNT, busy
from benchmarks.chaos import rows as chaos
from benchmarks.events import rows as events
from benchmarks.field import beside as field
from benchmarks.figures import table
from benchmarks.gateway import rows as gateway
from benchmarks.learning import rows as learning
from benchmarks.memory import rows as memory
from benchmarks.operate import rows as operate
from benchmarks.pages import rows as pages
from benchmarks.policy import rows as policy
from benchmarks.row import Row
from benchmarks.runs import rows as runs
from benchmarks.sandbox import rows as sandbox

Rows = Callable[[], Iterator[Row]]

PARTS: Mapping[str, Rows] = {
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
    "field": field.rows,
}

LOADED: Mapping[str, Rows] = {"sandbox": sandbox.loaded_rows, "events": events.rows}
"""The parts that are measured beside busy processes too. The others count things, or would take
ten times as long there."""

SIZED: Mapping[str, Callable[[int], Iterator[Row]]] = {
    "chaos": chaos.rows,
    "memory": memory.rows,
    "operate": operate.rows,
}


@dataclass(frozen=True, kw_only=True)
class Part:
    """One part of the figures, and its size if one was given."""

    name: str
    rows: Rows


def main(words: Sequence[str] | None = None) -> int:
    """Print the rows of the parts that are named, or of all; return 1 if any part failed."""
    parser = ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART [SIZE]", help=", ".join(PARTS))
    loaded = f"measure times a second time, beside {COUNT} busy processes"
    parser.add_argument("--loaded", action="store_true", help=loaded)
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the table as Markdown")
    options = parser.parse_args(words)
    parts, found = wanted(options.parts), list[Row]()
    print(f"{'what':<44}{'ours':>12}{'baseline':>12}{'ratio':>8}  target")
    for is_loaded in (False, True)[: 1 + options.loaded]:
        for part in parts:
            found += measured(part, loaded=is_loaded)
            if options.write:  # after each part: an interrupted run has measured something
                options.write.write_text(table(found, options.parts))
    return int(any(row.failed for row in found))


def measured(part: Part, *, loaded: bool) -> list[Row]:
    """Print each row of a part when it is known; an error becomes a row of its own."""
    rows = LOADED.get(part.name) if loaded else part.rows
    if rows is None:
        return []
    found, began = list[Row](), monotonic()
    try:
        with busy() if loaded else nullcontext():
            for row in rows():
                found.append(replace(row, loaded=loaded))
                print(line(found[-1]), flush=True)
    except Exception as error:  # noqa: BLE001  the last door: the other parts are still to come
        traceback.print_exc()
        note = f"failed: {type(error).__name__}: {error}"
        found.append(unmeasured(f"the rest of {part.name}", note, loaded=loaded))
        print(line(found[-1]), flush=True)
    print(f"  {part.name} took {monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    return found


def unmeasured(name: str, note: str, *, loaded: bool) -> Row:
    """A row of what could not be measured."""
    return Row(
        name=name,
        ours=nan,
        baseline=nan,
        ratio=nan,
        target="-",
        note=note,
        loaded=loaded,
        failed=True,
    )


def wanted(words: Sequence[str]) -> list[Part]:
    """The parts that are named, each with the number after it; all where none is."""
    return list(_named(words)) or [Part(name=name, rows=rows) for name, rows in PARTS.items()]


def _named(words: Sequence[str]) -> Iterator[Part]:
    for word, after in pairwise((*words, "")):
        if word in SIZED and after.isdigit():
            yield Part(name=word, rows=partial(SIZED[word], int(after)))
        elif word in PARTS:
            yield Part(name=word, rows=PARTS[word])
        elif not word.isdigit():
            sys.exit(f"no part {word!r}; there are {', '.join(PARTS)}")


def line(row: Row) -> str:
    """A row as a line of the terminal."""
    note = f"  ({row.note})" if row.note else ""
    name = f"{row.name}, loaded" if row.loaded else row.name
    if isnan(row.ratio):
        return f"{name:<44}{'-':>12}{'-':>12}{'-':>8}  {row.target}{note}"
    ours, baseline = (f"{value:.4g} {row.unit}" for value in (row.ours, row.baseline))
    return f"{name:<44}{ours:>12}{baseline:>12}{row.ratio:>8.3f}  {row.target}{note}"


if __name__ == "__main__":
    sys.exit(main())
