"""Live view of a run on stderr: a tree on a terminal, plain lines elsewhere."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Lock, Thread
from time import monotonic

from app.terminal.output import print_message
from blueprints.engine import RunListener
from contracts.run import NodeResult

QUIET_S = 30.0
"""Seconds without a line after which one says what is waited for, where there is no terminal."""

_MARKS = {"success": "ok", "failure": "failed", "skipped": "skipped"}


@contextmanager
def live_view(title: str, *, quiet: bool = False) -> Iterator[RunListener]:
    """Return a listener that displays one run until the block ends; `quiet` displays nothing."""
    if quiet:
        yield RunListener()
    elif sys.stderr.isatty():
        from app.terminal.tree import live_tree  # imports rich

        with live_tree(title) as tree:
            yield RunListener(
                on_node_start=tree.start, on_node_complete=tree.complete, on_line=tree.line
            )
    else:
        lines = PlainLines(print_message)
        with lines.repeated():
            yield RunListener(
                on_node_start=lines.start, on_node_complete=lines.complete, on_line=lines.line
            )


@contextmanager
def waiting_for(what: str) -> Iterator[None]:
    """Show on a terminal what is waited for until the block ends."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console  # a tenth of a second that other commands need not pay

    with Console(stderr=True).status(what):
        yield


class PlainLines:
    """Lines about a run, and after `QUIET_S` without any, a line that says what is going on."""

    def __init__(self, show: Callable[[str], None], clock: Callable[[], float] = monotonic) -> None:
        self._show = show
        self._clock = clock
        self._lock = Lock()
        self._running: dict[str, float] = {}
        self._began = self._last = clock()

    def start(self, name: str) -> None:
        self._running[name] = self._clock()
        self._print(f"{name}: started")

    def complete(self, name: str, result: NodeResult) -> None:
        self._running.pop(name, None)
        self._print(node_line(name, result))

    def line(self, _: str, text: str) -> None:
        self._print(f"  {text}")

    def remind(self) -> None:
        """Print what is going on if nothing was printed for `QUIET_S`."""
        now = self._clock()
        if now - self._last < QUIET_S:
            return
        name, since = next(reversed(self._running.items()), ("getting ready", self._began))
        self._print(f"{name}: still running after {now - since:.0f} s")

    @contextmanager
    def repeated(self) -> Iterator[None]:
        """Call `remind` every second until the block ends."""
        over = Event()

        def remind() -> None:
            while not over.wait(1.0):
                self.remind()

        thread = Thread(target=remind, name="live-lines", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _print(self, text: str) -> None:
        with self._lock:
            self._last = self._clock()
            self._show(text)


def node_line(name: str, result: NodeResult) -> str:
    """Return one line with the status, duration and error or remark of a finished node."""
    duration = f" in {result.duration_ms / 1000:.1f} s" if result.status != "skipped" else ""
    said = result.error or result.remark
    return f"{name}: {_MARKS[result.status]}{duration}{f': {said}' if said else ''}"
