"""A view as text for a terminal, from the same JSON that the pages render."""

from collections.abc import Iterator, Sequence
from typing import assert_never

from flows.views.spec import Cell, Code, Facts, Graph, Paragraph, Table, ViewSpec, cell_text

MAX_CELL = 60
"""Widest column, in characters; a longer cell gets a line of its own below its row."""


def view_text(view: ViewSpec) -> str:
    """Return the whole view as lines."""
    return "".join(f"{line}\n" for line in (view.title, *_parts(view)))


def _parts(view: ViewSpec) -> Iterator[str]:
    for part in view.parts:
        yield ""
        match part:
            case Paragraph():
                yield part.text
            case Facts():
                yield from (f"{name}: {_flat(cell)}" for name, cell in part.rows)
            case Code():
                yield f"{part.title}:"
                yield from (f"  {line}" for line in part.text.split("\n"))
            case Table():
                yield f"{part.title}:"
                yield from _table(part.head, part.rows)
            case Graph():
                yield f"{part.title}:"
                yield from _table(("#", "event", "caused by", "taint"), _graph_rows(part))
            case _:
                assert_never(part)


def _graph_rows(graph: Graph) -> list[tuple[str, ...]]:
    return [
        (
            str(node.number),
            node.text,
            ", ".join(f"{c.number}{' (tainted)' * c.tainted}" for c in node.causes),
            "tainted" * node.tainted,
        )
        for node in graph.nodes
    ]


def _table(head: Sequence[str], rows: Sequence[Sequence[Cell]]) -> Iterator[str]:
    if not rows:
        yield "  none"
        return
    cells = [tuple(head), *(tuple(map(_flat, row)) for row in rows)]
    shown = [tuple("…" if len(cell) > MAX_CELL else cell for cell in row) for row in cells]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    for row, whole in zip(shown, cells, strict=True):
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield f"  {line}".rstrip()
        long = (cell for cell in zip(head, whole, strict=True) if len(cell[1]) > MAX_CELL)
        yield from (f"      {name}: {text}" for name, text in long)


def _flat(cell: Cell) -> str:
    return " ".join(cell_text(cell).split())
