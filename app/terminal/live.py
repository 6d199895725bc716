"""Live view of a run on stderr: a tree on a terminal, plain lines elsewhere."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from app.terminal.output import print_message
from blueprints.engine import RunListener
from contracts.run import NodeResult

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
        yield RunListener(
            on_node_start=lambda name: print_message(f"{name}: started"),
            on_node_complete=lambda name, result: print_message(node_line(name, result)),
            on_line=lambda _, text: print_message(f"  {text}"),
        )


def node_line(name: str, result: NodeResult) -> str:
    """Return one line with the status, duration and error of a finished node."""
    duration = f" in {result.duration_ms / 1000:.1f} s" if result.status != "skipped" else ""
    error = f": {result.error}" if result.error else ""
    return f"{name}: {_MARKS[result.status]}{duration}{error}"
