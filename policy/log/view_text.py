"""A ViewSpec as Markdown: what events say is inert in it, whoever wrote it. Pure."""

import html
import re
from base64 import b64encode

from policy.log.graph_svg import svg
from policy.log.view_spec import Graph, Part, Prose, Table, ViewSpec


def markdown(view: ViewSpec, *, pictures: bool = False) -> str:
    """The page; the graph is a picture in it, or a table of its arrows."""
    parts = (_part(part, pictures=pictures) for part in view.parts)
    return "\n\n".join((f"# {_plain(view.title)}", *parts)) + "\n"


def _part(part: Part, *, pictures: bool) -> str:
    match part:
        case Prose():
            return _plain(part.text)
        case Table():
            return f"## {_plain(part.title)}\n\n{_table(part.head, part.rows)}"
        case Graph():
            drawn = _picture(part) if pictures else _graph(part)
            return f"## {_plain(part.title)}\n\n{drawn}"


def _table(head: tuple[str, ...], rows: tuple[tuple[str, ...], ...]) -> str:
    if not rows:
        return "None."
    lines = (head, tuple("---" for _ in head), *rows)
    return "\n".join(f"| {' | '.join(_plain(cell) for cell in line)} |" for line in lines)


def _picture(graph: Graph) -> str:
    """An image without an address, in which nothing can run."""
    data = b64encode(svg(graph).encode()).decode()
    return f"![{_plain(graph.title)}](data:image/svg+xml;base64,{data})"


def _graph(graph: Graph) -> str:
    text = {node.id: node.text for node in graph.nodes}
    rows = tuple(
        (text[edge.source], text[edge.target], "tainted" if edge.tainted else "")
        for edge in graph.edges
    )
    return _table(("from", "to", ""), rows)


def _plain(text: str) -> str:
    """One line in which Markdown and HTML have no power."""
    flat = html.escape(" ".join(text.split()), quote=False)
    return re.sub(r"([\\`*_\[\]|#!])", r"\\\1", flat) if flat != "---" else flat
