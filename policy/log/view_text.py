"""A ViewSpec as Markdown, in which no text of an event acts as Markdown or HTML. Pure."""

import html
import re

from policy.log.graph_text import GraphRow, graph_rows
from policy.log.view_spec import Graph, Paragraph, ViewPart, ViewSpec, ViewTable

MAX_ROWS = 400
"""Rows of a graph's table; a longer page takes a browser seconds."""


def view_markdown(view: ViewSpec) -> str:
    """The page. A graph is a table: Prefect's first UI, for one, does not render Mermaid."""
    return "\n\n".join((f"# {_plain(view.title)}", *map(_part, view.parts))) + "\n"


def _part(part: ViewPart) -> str:
    match part:
        case Paragraph():
            return _plain(part.text)
        case ViewTable():
            return f"## {_plain(part.title)}\n\n{_table(part.head, part.rows)}"
        case Graph():
            return f"## {_plain(part.title)}\n\n{_graph(part)}"


def _table(head: tuple[str, ...], rows: tuple[tuple[str, ...], ...]) -> str:
    if not rows:
        return "None."
    lines = (head, tuple("---" for _ in head), *rows)
    return "\n".join(f"| {' | '.join(_plain(cell) for cell in line)} |" for line in lines)


def _graph(graph: Graph) -> str:
    rows = graph_rows(graph)
    shown = tuple(_row(row) for row in rows[:MAX_ROWS])
    table = _table(("#", "event", "caused by", "taint"), shown)
    if len(rows) <= MAX_ROWS:
        return table
    return (
        f"{table}\n\nThe first {MAX_ROWS} of {len(rows)} events; `harness runs events` prints all."
    )


def _row(row: GraphRow) -> tuple[str, ...]:
    causes = (f"{cause.number}{' (tainted)' if cause.tainted else ''}" for cause in row.causes)
    taint = "tainted" if row.node.tainted else ""
    return str(row.number), row.node.text, ", ".join(causes), taint


def _plain(text: str) -> str:
    """One line in which Markdown and HTML have no power."""
    flat = html.escape(" ".join(text.split()), quote=False)
    return re.sub(r"([\\`*_\[\]|#!])", r"\\\1", flat) if flat != "---" else flat
