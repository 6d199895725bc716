"""What a person sees while a run goes on: a tree on a terminal, plain lines elsewhere."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from app.terminal.output import print_message
from blueprints.engine import RunListener
from contracts.run import NodeResult

_MARKS = {"success": "ok", "failure": "failed", "skipped": "skipped"}


@contextmanager
def live_view(title: str, *, quiet: bool = False) -> Iterator[RunListener]:
    """A watch for one run; the display ends with the block. `quiet` shows nothing."""
    if quiet:
        yield RunListener()
    elif sys.stderr.isatty():
        from app.terminal.tree import live_tree  # brings in rich

        with live_tree(title) as tree:
            yield RunListener(
                on_node_start=tree.start, on_node_complete=tree.complete, on_line=tree.line
            )
    else:
        yield RunListener(
            on_node_start=_say_start, on_node_complete=_say_complete, on_line=_say_line
        )


def node_line(name: str, result: NodeResult) -> str:
    """One line on how a node ended."""
    mark = _MARKS[result.status]
    took = f" in {result.duration_ms / 1000:.1f} s" if result.status != "skipped" else ""
    return f"{name}: {mark}{took}" + (f": {result.error}" if result.error else "")


def _say_start(name: str) -> None:
    print_message(f"{name}: started")


def _say_complete(name: str, result: NodeResult) -> None:
    print_message(node_line(name, result))


def _say_line(_: str, text: str) -> None:
    print_message(f"  {text}")
