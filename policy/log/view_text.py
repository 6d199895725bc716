"""Views as Markdown and graphs as Mermaid, in which text of events never acts as markup."""

import html
import re
from typing import NamedTuple

from policy.log.view_spec import (
    Graph,
    GraphEdge,
    GraphNode,
    Paragraph,
    ViewPart,
    ViewSpec,
    ViewTable,
)

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


class Cause(NamedTuple):
    """The number of an earlier row that a row depends on."""

    number: int
    tainted: bool


class GraphRow(NamedTuple):
    """A node of the graph, and the rows that it depends on."""

    number: int
    node: GraphNode
    causes: tuple[Cause, ...]


def graph_rows(graph: Graph) -> tuple[GraphRow, ...]:
    """Return the nodes in order, numbered from 1."""
    numbers = {node.id: number for number, node in enumerate(graph.nodes, 1)}
    incoming: dict[str, list[GraphEdge]] = {}
    for edge in graph.edges:
        incoming.setdefault(edge.target, []).append(edge)
    return tuple(
        GraphRow(
            numbers[node.id],
            node,
            tuple(sorted(Cause(numbers[e.source], e.tainted) for e in incoming.get(node.id, ()))),
        )
        for node in graph.nodes
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
    drawn: list[GraphRow] = []
    for row in graph_rows(graph)[:MAX_BOXES]:
        if len(edges) + len(row.causes) > MAX_EDGES or sum(map(len, lines)) > MAX_TEXT:
            break
        drawn.append(row)
        edges += row.causes
        lines.append(f'n{row.number}["{_mermaid_label(row.node.text)}"]')
        for cause in row.causes:
            arrow = "==>" if cause.tainted else "-->"
            lines.append(f"n{cause.number} {arrow} n{row.number}")
    omitted = len(graph.nodes) - len(drawn)
    if omitted:
        lines.append(f'more["{omitted} more events are not drawn"]')
    red = ",".join(str(index) for index, edge in enumerate(edges) if edge.tainted)
    if red:
        lines.append(f"linkStyle {red} stroke:#dc2626")
    for style in ("tainted", "denied"):
        boxes = ",".join(f"n{row.number}" for row in drawn if getattr(row.node, style))
        if boxes:
            lines.append(f"class {boxes} {style}")
    return "\n  ".join((*lines, *_STYLE)) + "\n"


def _part(part: ViewPart) -> str:
    match part:
        case Paragraph():
            return _escaped(part.text)
        case ViewTable():
            return f"## {_escaped(part.title)}\n\n{_table(part.head, part.rows)}"
        case Graph():
            return f"## {_escaped(part.title)}\n\n{_graph_table(part)}"


def _table(head: tuple[str, ...], rows: tuple[tuple[str, ...], ...]) -> str:
    if not rows:
        return "None."
    lines = (head, tuple("---" for _ in head), *rows)
    return "\n".join(f"| {' | '.join(_escaped(cell) for cell in line)} |" for line in lines)


def _graph_table(graph: Graph) -> str:
    rows = graph_rows(graph)
    cells = []
    for row in rows[:MAX_ROWS]:
        causes = (f"{cause.number}{' (tainted)' if cause.tainted else ''}" for cause in row.causes)
        taint = "tainted" if row.node.tainted else ""
        cells.append((str(row.number), row.node.text, ", ".join(causes), taint))
    table = _table(("#", "event", "caused by", "taint"), tuple(cells))
    if len(rows) <= MAX_ROWS:
        return table
    return (
        f"{table}\n\nThe first {MAX_ROWS} of {len(rows)} events; `harness runs events` prints all."
    )


def _escaped(text: str) -> str:
    """Return one line of text in which no character acts as Markdown or HTML."""
    flat = html.escape(" ".join(text.split()), quote=False)
    return re.sub(r"([\\`*_\[\]|#!])", r"\\\1", flat) if flat != "---" else flat


def _mermaid_label(text: str) -> str:
    """Return short text with numeric codes for the characters that Mermaid or HTML interpret."""
    flat = " ".join(text.split())
    short = flat if len(flat) <= _MAX_LABEL else f"{flat[: _MAX_LABEL - 1]}…"
    return re.sub(r"[^\w .,/·…-]", lambda match: f"#{ord(match[0])};", short)
