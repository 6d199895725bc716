"""A graph as SVG: boxes in rows below their causes, tainted ways red. No script, no link. Pure."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple

from policy.log.view_spec import Graph, GraphNode

_WIDTH, _HEIGHT, _GAP_X, _GAP_Y, _MARGIN, _TITLE = 250, 30, 22, 24, 16, 34
_LETTERS = 38
"""As many as fit into a box."""
MAX_BOXES = 400
"""More are told of, not drawn."""

_STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#1f2937}"
    ".box{fill:#f3f4f6;stroke:#6b7280}.box.tainted{fill:#fee2e2;stroke:#b91c1c}"
    ".box.denied{stroke-width:3;stroke-dasharray:5 3}"
    ".way{fill:none;stroke:#9ca3af;stroke-width:1.4}.way.tainted{stroke:#dc2626;stroke-width:2}"
    "#head path{fill:#9ca3af}#head-tainted path{fill:#dc2626}"
)


class _Place(NamedTuple):
    x: int
    y: int


def svg(graph: Graph) -> str:
    """The picture, with a title that says the same to who cannot see it."""
    nodes = graph.nodes[:MAX_BOXES]
    places = _places(nodes, graph)
    width = max((p.x for p in places.values()), default=0) + _WIDTH + _MARGIN
    height = max((p.y for p in places.values()), default=0) + _HEIGHT + _MARGIN
    tainted = sum(node.tainted for node in graph.nodes)
    more = len(graph.nodes) - len(nodes)
    told = f"{graph.title}: {len(graph.nodes)} steps, {tainted} tainted" + (
        f", {more} not drawn" if more else ""
    )
    return "".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" role="img"><title>{escape(told)}</title>'
            f'<style>{_STYLE}</style><rect width="100%" height="100%" fill="#fff"/>',
            _marker("head"),
            _marker("head-tainted"),
            f'<text x="{_MARGIN}" y="{_MARGIN + 6}">{escape(told)} (red)</text>',
            *(
                _way(places[edge.source], places[edge.target], tainted=edge.tainted)
                for edge in graph.edges
                if edge.source in places and edge.target in places
            ),
            *(_box(node, places[node.id]) for node in nodes),
            "</svg>",
        )
    )


def _places(nodes: Sequence[GraphNode], graph: Graph) -> Mapping[str, _Place]:
    """A row below all causes; in a row the order in which it happened."""
    sources: dict[str, list[str]] = {}
    for edge in graph.edges:
        sources.setdefault(edge.target, []).append(edge.source)
    row: dict[str, int] = {}
    filled: dict[int, int] = {}
    places: dict[str, _Place] = {}
    for node in nodes:
        here = 1 + max((row.get(name, -1) for name in sources.get(node.id, ())), default=-1)
        row[node.id] = here
        before = filled.get(here, 0)
        filled[here] = before + 1
        x, y = _MARGIN + before * (_WIDTH + _GAP_X), _TITLE + here * (_HEIGHT + _GAP_Y)
        places[node.id] = _Place(x, y)
    return places


def _box(node: GraphNode, at: _Place) -> str:
    words = "".join((" tainted" if node.tainted else "", " denied" if node.denied else ""))
    text = node.text if len(node.text) <= _LETTERS else f"{node.text[: _LETTERS - 1]}…"
    return (
        f'<g><title>{escape(node.text)}</title><rect class="box{words}" x="{at.x}" y="{at.y}" '
        f'width="{_WIDTH}" height="{_HEIGHT}" rx="6"/>'
        f'<text x="{at.x + 9}" y="{at.y + 20}">{escape(text)}</text></g>'
    )


def _way(start: _Place, end: _Place, *, tainted: bool) -> str:
    x1, y1 = start.x + _WIDTH // 2, start.y + _HEIGHT
    x2, y2 = end.x + _WIDTH // 2, end.y - 1
    bend = max((y2 - y1) // 2, 12)
    words, head = ("way tainted", "head-tainted") if tainted else ("way", "head")
    return (
        f'<path class="{words}" marker-end="url(#{head})" '
        f'd="M{x1} {y1}C{x1} {y1 + bend} {x2} {y2 - bend} {x2} {y2}"/>'
    )


def _marker(name: str) -> str:
    return (
        f'<defs><marker id="{name}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="9" '
        'markerHeight="9" markerUnits="userSpaceOnUse" orient="auto">'
        '<path d="M0 0L8 4L0 8z"/></marker></defs>'
    )
