"""A page about what happened, as data: any client can render it."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class ViewTable:
    """Rows under a head, all of them text."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Paragraph:
    """A paragraph of plain text; the renderer escapes it."""

    text: str


@dataclass(frozen=True, kw_only=True)
class GraphNode:
    """A box of the graph. A tainted box has handled content from an untrusted source."""

    id: str
    text: str
    tainted: bool
    denied: bool = False


@dataclass(frozen=True, kw_only=True)
class GraphEdge:
    """An arrow of the graph, from a cause to its effect."""

    source: str
    target: str
    tainted: bool


@dataclass(frozen=True, kw_only=True)
class Graph:
    """The data flow. Causes stand before their effects in `nodes`."""

    title: str
    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]


ViewPart = ViewTable | Paragraph | Graph


@dataclass(frozen=True, kw_only=True)
class ViewSpec:
    """A page about some events."""

    title: str
    parts: tuple[ViewPart, ...]
