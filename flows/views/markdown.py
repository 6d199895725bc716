"""A page about events: its data, and the page as Markdown or Mermaid.

The terminal, Prefect and the web pages render the same data. Text of events never acts as markup.
"""

import html
import re
from dataclasses import dataclass
from typing import NamedTuple

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


@dataclass(frozen=True, kw_only=True)
class ViewTable:
    """Rows of text below column titles."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Paragraph:
    """A paragraph of plain text, which the renderer escapes."""

    text: str


class Cause(NamedTuple):
    """The number of an earlier node that a node depends on."""

    number: int
    tainted: bool


@dataclass(frozen=True, kw_only=True)
class GraphNode:
    """A node of the graph; a tainted one has handled content from an untrusted origin."""

    number: int
    text: str
    tainted: bool
    denied: bool = False
    causes: tuple[Cause, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Graph:
    """The data flow. The nodes are numbered from 1, causes before their effects."""

    title: str
    nodes: tuple[GraphNode, ...]


ViewPart = ViewTable | Paragraph | Graph


@dataclass(frozen=True, kw_only=True)
class ViewSpec:
    """A page about some events."""

    title: str
    parts: tuple[ViewPart, ...]


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
    return re.sub(r"([\\`*_\[\]|#!])", r"\\\1", flat) if flat != "---" else flat


def _mermaid_label(text: str) -> str:
    """Return short text with numeric codes for the characters that Mermaid or HTML interpret."""
    flat = " ".join(text.split())
    short = flat if len(flat) <= _MAX_LABEL else f"{flat[: _MAX_LABEL - 1]}…"
    # Mermaid shows #60; as <, and does not interpret it.
    return re.sub(r"[^\w .,/·…-]", lambda match: f"#{ord(match[0])};", short)
