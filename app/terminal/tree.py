"""Live tree of a run on a terminal: finished nodes, and running nodes with their output."""

from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from contracts.run import NodeResult

TAIL_LINES = 6
"""Lines of output shown below the running nodes."""

_MARKS = {
    "success": ("ok", "green"),
    "failure": ("failed", "red"),
    "skipped": ("skipped", "dim"),
}


class RunTree:
    """Nodes of one run so far. Parallel lanes call its methods from several threads."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._done: list[tuple[int, str, NodeResult]] = []
        self._running: list[tuple[str, Spinner]] = []
        self._lines: list[str] = []
        self._started = monotonic()

    def start(self, name: str) -> None:
        self._running.append((name, Spinner("line", Text(name))))
        self._lines = []

    def complete(self, name: str, result: NodeResult) -> None:
        self._running = [entry for entry in self._running if entry[0] != name]
        self._done.append((len(self._running), name, result))
        self._lines = []

    def line(self, _: str, text: str) -> None:
        self._lines = [*self._lines, text][-TAIL_LINES:]

    def render(self) -> RenderableType:
        rows = Table.grid(padding=(0, 1))
        for depth, name, result in self._done:
            mark, style = _MARKS[result.status]
            indent = "  " * depth
            rows.add_row(
                Text(f"{indent}{mark}", style=style),
                Text(f"{indent}{name}"),
                Text(f"{result.duration_ms / 1000:.1f} s", style="dim"),
                Text("".join((result.error or result.remark).splitlines()[:1]), style="red"),
            )
        running = [spinner for _, spinner in self._running]
        tail = [Text(f"    {line}", style="dim", no_wrap=True) for line in self._lines]
        head = Text(f"{self._title} · {monotonic() - self._started:.0f} s", style="bold")
        return Group(head, rows, *running, *tail)


@contextmanager
def live_tree(title: str) -> Iterator[RunTree]:
    """Show a tree on the terminal and refresh it; the last state stays after the block."""
    tree = RunTree(title)
    console = Console(stderr=True)
    with Live(console=console, get_renderable=tree.render, refresh_per_second=8):
        yield tree
