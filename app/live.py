"""What a person sees while a run goes on: a tree on a terminal, plain lines elsewhere."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from app.terminal import say
from blueprints.engine import Watch
from contracts.run import NodeResult

TAIL = 6
"""Lines of output shown below the node that is running."""

_MARKS = {
    "success": ("ok", "green"),
    "failure": ("failed", "red"),
    "skipped": ("skipped", "dim"),
}


@contextmanager
def watching(title: str, *, quiet: bool = False) -> Iterator[Watch]:
    """A watch for one run; the display ends with the block. `quiet` shows nothing."""
    if quiet:
        yield Watch()
    elif sys.stderr.isatty():
        tree = Tree(title)
        console = Console(stderr=True)
        with Live(console=console, get_renderable=tree.render, refresh_per_second=8):
            yield Watch(on_node_start=tree.start, on_node_complete=tree.complete, on_line=tree.line)
    else:
        yield Watch(on_node_start=_say_start, on_node_complete=_say_complete, on_line=_say_line)


def verdict(name: str, result: NodeResult) -> str:
    """One line on how a node ended."""
    mark, _ = _MARKS[result.status]
    took = f" in {result.duration_ms / 1000:.1f} s" if result.status != "skipped" else ""
    return f"{name}: {mark}{took}" + (f": {result.error}" if result.error else "")


class Tree:
    """The nodes so far, those that run with their newest lines. Lanes call it from threads."""

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
        self._lines = [*self._lines, text][-TAIL:]

    def render(self) -> RenderableType:
        rows = Table.grid(padding=(0, 1))
        for depth, name, result in self._done:
            mark, style = _MARKS[result.status]
            indent = "  " * depth
            rows.add_row(
                Text(f"{indent}{mark}", style=style),
                Text(f"{indent}{name}"),
                Text(f"{result.duration_ms / 1000:.1f} s", style="dim"),
                Text((result.error or "").splitlines()[0] if result.error else "", style="red"),
            )
        running = [spinner for _, spinner in self._running]
        tail = [Text(f"    {line}", style="dim", no_wrap=True) for line in self._lines]
        head = Text(f"{self._title} · {monotonic() - self._started:.0f} s", style="bold")
        return Group(head, rows, *running, *tail)


def _say_start(name: str) -> None:
    say(f"{name}: started")


def _say_complete(name: str, result: NodeResult) -> None:
    say(verdict(name, result))


def _say_line(_: str, text: str) -> None:
    say(f"  {text}")
