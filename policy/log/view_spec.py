"""A page about events, as data that the terminal, Prefect and the web pages render."""

from dataclasses import dataclass


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


@dataclass(frozen=True, kw_only=True)
class GraphNode:
    """A node of the graph; a tainted one has handled content from an untrusted origin."""

    id: str
    text: str
    tainted: bool
    denied: bool = False


@dataclass(frozen=True, kw_only=True)
class GraphEdge:
    """An edge of the graph, from a cause to its effect."""

    source: str
    target: str
    tainted: bool


@dataclass(frozen=True, kw_only=True)
class Graph:
    """The data flow. In `nodes`, causes stand before their effects."""

    title: str
    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]


ViewPart = ViewTable | Paragraph | Graph


@dataclass(frozen=True, kw_only=True)
class ViewSpec:
    """A page about some events."""

    title: str
    parts: tuple[ViewPart, ...]
