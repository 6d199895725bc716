"""`make bench`: every figure as a ratio; `python -m benchmarks.run runs` for one part."""

import sys
from collections.abc import Callable, Iterator, Mapping
from math import isnan

from benchmarks.agents import rows as agents
from benchmarks.chaos import rows as chaos
from benchmarks.events import rows as events
from benchmarks.gateway import rows as gateway
from benchmarks.memory import rows as memory
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
    "policy": policy.rows,
    "pages": pages.rows,
    "chaos": chaos.rows,
}


def main() -> None:
    """Print the rows of the parts that are named, or of all."""
    wanted = sys.argv[1:] or list(PARTS)
    for part in wanted:
        if part not in PARTS:
            sys.exit(f"no part {part!r}; there are {', '.join(PARTS)}")
    print(f"{'what':<44}{'ours':>12}{'baseline':>12}{'ratio':>8}  target")
    for part in wanted:
        for row in PARTS[part]():
            print(_line(row), flush=True)


def _line(row: Row) -> str:
    note = f"  ({row.note})" if row.note else ""
    if isnan(row.ratio):
        return f"{row.name:<44}{'-':>12}{'-':>12}{'-':>8}  {row.target}{note}"
    ours, baseline = (f"{value:.4g} {row.unit}" for value in (row.ours, row.baseline))
    return f"{row.name:<44}{ours:>12}{baseline:>12}{row.ratio:>8.3f}  {row.target}{note}"


if __name__ == "__main__":
    main()
