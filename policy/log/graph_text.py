"""A graph as text: numbered rows for a table, or a Mermaid flowchart. Pure."""

import re
from typing import NamedTuple

from policy.log.view_spec import Graph, GraphEdge, GraphNode

MAX_BOXES, MAX_EDGES, MAX_TEXT = 200, 450, 40_000
"""Mermaid refuses more than 500 edges or 50,000 characters."""
_LABEL = 60
"""Characters of a box's label."""

_STYLE = (
    "classDef tainted fill:#fee2e2,stroke:#b91c1c,color:#1f2937",
    "classDef denied stroke-width:3px,stroke-dasharray:5 3",
)


class Cause(NamedTuple):
    """An earlier row of the graph that this row depends on."""

    number: int
    tainted: bool


class GraphRow(NamedTuple):
    """One box of the graph, and the numbers of the rows that led to it."""

    number: int
    node: GraphNode
    causes: tuple[Cause, ...]


def graph_rows(graph: Graph) -> tuple[GraphRow, ...]:
    """The boxes in order, numbered from 1; causes stand before their effects."""
    number = {node.id: place for place, node in enumerate(graph.nodes, 1)}
    into: dict[str, list[GraphEdge]] = {}
    for edge in graph.edges:
        into.setdefault(edge.target, []).append(edge)
    return tuple(
        GraphRow(
            number[node.id],
            node,
            tuple(sorted(Cause(number[e.source], e.tainted) for e in into.get(node.id, ()))),
        )
        for node in graph.nodes
    )


def mermaid(graph: Graph) -> str:
    """A Mermaid flowchart; tainted boxes and edges are red, denied boxes have a dashed border.

    A graph that Mermaid would refuse is cut after its first boxes; the last box then says how
    many are left out.
    """
    lines = ["flowchart TD"]
    edges: list[Cause] = []
    drawn: list[GraphRow] = []
    for row in graph_rows(graph)[:MAX_BOXES]:
        if len(edges) + len(row.causes) > MAX_EDGES or sum(map(len, lines)) > MAX_TEXT:
            break
        drawn.append(row)
        edges += row.causes
        lines.append(f'n{row.number}["{_label(row.node.text)}"]')
        lines += (_edge(cause, row.number) for cause in row.causes)
    if left_out := len(graph.nodes) - len(drawn):
        lines.append(f'more["{left_out} more events are not drawn"]')
    red = ",".join(str(place) for place, cause in enumerate(edges) if cause.tainted)
    lines += (f"linkStyle {red} stroke:#dc2626",) if red else ()
    for word in ("tainted", "denied"):
        if boxes := ",".join(f"n{row.number}" for row in drawn if getattr(row.node, word)):
            lines.append(f"class {boxes} {word}")
    return "\n  ".join((*lines, *_STYLE)) + "\n"


def _edge(cause: Cause, target: int) -> str:
    return f"n{cause.number} {'==>' if cause.tainted else '-->'} n{target}"


def _label(text: str) -> str:
    """The text with every character that Mermaid, Markdown or HTML may act on as a code."""
    flat = " ".join(text.split())
    short = flat if len(flat) <= _LABEL else f"{flat[: _LABEL - 1]}…"
    return re.sub(r"[^\w .,/·…-]", lambda found: f"#{ord(found[0])};", short)
