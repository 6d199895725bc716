"""The page `docs/why/figures.md`, made of the rows that one run of the benchmarks measured."""

import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from math import isnan

from benchmarks.busy import COUNT
from benchmarks.row import Row

_HEAD = """\
# Figures

`{command}` made this page on {day}, on {processors} processors ({machine}).

Each ratio is ours divided by a baseline that was measured in the same run, so that it holds on
other machines too. *Loaded* is the same ratio beside {count} busy processes of the host; not every
part has one.

| What | Ours | Baseline | Ratio | Loaded | Promised |
|---|---|---|---|---|---|
"""


def table(rows: Sequence[Row], parts: Sequence[str]) -> str:
    """Return the page as Markdown: a line for each row, with its loaded ratio beside the other.

    `parts` are the words of the command line that named what was measured; none: everything.
    """
    loaded = {row.name: row for row in rows if row.loaded}
    quiet = [row for row in rows if not row.loaded]
    missing = [row for name, row in loaded.items() if name not in {row.name for row in quiet}]
    some = f"python -m benchmarks.run {' '.join(parts)} --loaded --write docs/why/figures.md"
    head = _HEAD.format(
        command=some if parts else "make bench",
        day=datetime.now(UTC).date().isoformat(),
        processors=os.cpu_count(),
        machine=f"{platform.system()} {platform.machine()}",
        count=COUNT,
    )
    return head + "".join(_line(row, loaded.get(row.name)) for row in [*quiet, *missing])


def _line(row: Row, loaded: Row | None) -> str:
    cells = (
        row.name,
        _value(row.ours, row.unit),
        _value(row.baseline, row.unit),
        _value(row.ratio, ""),
        "" if loaded is None else _value(loaded.ratio, ""),
        row.target if not row.note else f"{row.target} ({row.note})",
    )
    return "".join(f"| {cell.replace('|', '/').replace(chr(10), ' ')} " for cell in cells) + "|\n"


def _value(number: float, unit: str) -> str:
    return "-" if isnan(number) else f"{number:.3g} {unit}".strip()
