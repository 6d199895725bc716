"""A page about what happened, as data: any client can render it."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows under a head, all of them text."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Prose:
    """A paragraph, as plain text: whoever renders it makes it inert."""

    text: str


@dataclass(frozen=True, kw_only=True)
class GraphNode:
    """A box of the picture. `tainted` ones came in touch with what nobody vouches for."""

    id: str
    text: str
    tainted: bool
    denied: bool = False


@dataclass(frozen=True, kw_only=True)
class GraphEdge:
    """An arrow of the picture, from what was there before to what came of it."""

    source: str
    target: str
    tainted: bool


@dataclass(frozen=True, kw_only=True)
class Graph:
    """The data flow: arrows lead down."""

    title: str
    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]


Part = Table | Prose | Graph


@dataclass(frozen=True, kw_only=True)
class ViewSpec:
    """A page about some events."""

    title: str
    parts: tuple[Part, ...]
