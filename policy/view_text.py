"""A ViewSpec as Markdown: what events say is inert in it, whoever wrote it. Pure."""

import html
import re

from policy.views import Graph, Link, Prose, Table, ViewSpec


def markdown(view: ViewSpec) -> str:
    """The page, for places that have no pictures of ours; the graph is a list of its arrows."""
    return "\n\n".join((f"# {_plain(view.title)}", *map(_part, view.parts))) + "\n"


def _part(part: Prose | Table | Link | Graph) -> str:
    match part:
        case Prose():
            return _plain(part.text)
        case Table():
            return f"## {_plain(part.title)}\n\n{_table(part.head, part.rows)}"
        case Link():
            return f"[{_plain(part.text)}]({_url(part.url)})"
        case Graph():
            return f"## {_plain(part.title)}\n\n{_graph(part)}"


def _table(head: tuple[str, ...], rows: tuple[tuple[str, ...], ...]) -> str:
    if not rows:
        return "None."
    lines = (head, tuple("---" for _ in head), *rows)
    return "\n".join(f"| {' | '.join(_plain(cell) for cell in line)} |" for line in lines)


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


def _url(url: str) -> str:
    """The address if it is one of the web's or of these pages, else nowhere."""
    safe = re.match(r"(https?://|/(?!/))", url)
    return re.sub(r"[\s()<>]", "", url) if safe else "#"
