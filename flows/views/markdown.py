"""A view as Markdown or as a Mermaid flowchart. Its text never acts as markup."""

import html
import re
from collections.abc import Sequence
from typing import assert_never

from flows.views.spec import (
    Cause,
    Cell,
    Code,
    Facts,
    Graph,
    GraphNode,
    Paragraph,
    Part,
    Table,
    ViewSpec,
    cell_text,
)
from nodes.text import code_block

MAX_ROWS = 400
"""Rows of a graph's table in Markdown; browsers render a longer table slowly."""

MAX_BOXES, MAX_EDGES, MAX_TEXT = 200, 450, 40_000
"""Mermaid refuses more than 500 edges or 50,000 characters."""

_MAX_LABEL = 60
"""Characters of a box's label."""

_STYLE = (
    "classDef tainted fill:#fee2e2,stroke:#b91c1c,color:#1f2937",
    "classDef denied stroke-width:3px,stroke-dasharray:5 3",
)


def view_markdown(view: ViewSpec) -> str:
    """Return the page as Markdown, with graphs as tables: not every viewer renders Mermaid."""
    return "\n\n".join((f"# {_escaped(view.title)}", *map(_part, view.parts))) + "\n"


def mermaid(graph: Graph) -> str:
    """Return a Mermaid flowchart; tainted nodes and edges are red, denied nodes are dashed.

    A graph beyond Mermaid's limits is cut, and a last box gives the number of omitted events.
    """
    lines = ["flowchart TD"]
    edges: list[Cause] = []
    drawn: list[GraphNode] = []
    for node in graph.nodes[:MAX_BOXES]:
        if len(edges) + len(node.causes) > MAX_EDGES or sum(map(len, lines)) > MAX_TEXT:
            break
        drawn.append(node)
        edges += node.causes
        lines.append(f'n{node.number}["{_mermaid_label(node.text)}"]')
        for cause in node.causes:
            arrow = "==>" if cause.tainted else "-->"
            lines.append(f"n{cause.number} {arrow} n{node.number}")
    omitted = len(graph.nodes) - len(drawn)
    if omitted:
        lines.append(f'more["{omitted} more events are not drawn"]')
    red = ",".join(str(index) for index, edge in enumerate(edges) if edge.tainted)
    if red:
        lines.append(f"linkStyle {red} stroke:#dc2626")
    for style in ("tainted", "denied"):
        boxes = ",".join(f"n{node.number}" for node in drawn if getattr(node, style))
        if boxes:
            lines.append(f"class {boxes} {style}")
    return "\n  ".join((*lines, *_STYLE)) + "\n"


def _part(part: Part) -> str:
    match part:
        case Paragraph():
            return _escaped(part.text)
        case Facts():
            return _table(("", ""), part.rows)
        case Code():
            return f"## {_escaped(part.title)}\n\n{code_block(part.text)}"
        case Table():
            return f"## {_escaped(part.title)}\n\n{_table(part.head, part.rows)}"
        case Graph():
            return f"## {_escaped(part.title)}\n\n{_graph_table(part)}"
        case _:
            assert_never(part)


def _table(head: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    if not rows:
        return "None."
    lines = (_row(head), f"|{' --- |' * len(head)}", *map(_row, rows))
    return "\n".join(lines)


def _row(cells: Sequence[Cell]) -> str:
    return f"| {' | '.join(_escaped(cell_text(cell)) for cell in cells)} |"


def _graph_table(graph: Graph) -> str:
    cells = []
    for node in graph.nodes[:MAX_ROWS]:
        causes = (f"{cause.number}{' (tainted)' * cause.tainted}" for cause in node.causes)
        taint = "tainted" * node.tainted
        cells.append((str(node.number), node.text, ", ".join(causes), taint))
    table = _table(("#", "event", "caused by", "taint"), tuple(cells))
    total = len(graph.nodes)
    if total <= MAX_ROWS:
        return table
    return f"{table}\n\nThe first {MAX_ROWS} of {total} events; `harness runs events` prints all."


def _escaped(text: str) -> str:
    """Return one line of text in which no character acts as Markdown or HTML."""
    # Markdown renderers keep HTML, and a newline would end a row of a table.
    flat = html.escape(" ".join(text.split()), quote=False)
    return re.sub(r"([\\`*_\[\]|#!])", r"\\\1", flat)


def _mermaid_label(text: str) -> str:
    """Return short text with numeric codes for the characters that Mermaid or HTML interpret."""
    flat = " ".join(text.split())
    short = flat if len(flat) <= _MAX_LABEL else f"{flat[: _MAX_LABEL - 1]}…"
    # Mermaid shows #60; as <, and does not interpret it.
    return re.sub(r"[^\w .,/·…-]", lambda match: f"#{ord(match[0])};", short)
