"""Which node it was: what one raises carries its name and the line it came from."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from time import monotonic
from traceback import walk_tb

from contracts.errors import NodeBroken, Unavailable
from nodes.text import strip_control_characters

_OURS = {"blueprints", "contracts", "flows", "memory", "nodes", "policy", "providers", "sandbox"}
_LIBRARY = "blueprints.library."


class _Blame(str):
    """A note on an exception: a line on the node that raised it."""

    def __init__(self, _: str) -> None:
        self.took_ms: dict[str, int] = {}
        """Milliseconds until the error, for that node and for each node around it."""


@contextmanager
def attribute_errors(node: str) -> Iterator[None]:
    """Note on any exception of the block which node raised it, and the nodes around that one.

    An outage (`Unavailable`) is no node's fault: it is not noted.

    Raises:
        NodeBroken: the block tried to end the process.
    """
    started = monotonic()
    try:
        yield
    except Unavailable:
        raise
    except SystemExit as error:
        broken = NodeBroken(_blame_line(node, error))
        _note(broken, node, str(broken), started)
        raise broken from error
    except Exception as error:  # a bug in the node: noted and raised again
        _note(error, node, _blame_line(node, error), started)
        raise


def describe_node_error(error: BaseException) -> str | None:
    """One line on the node that raised this, and where; None if no node raised it."""
    found = _blame_of(error)
    return None if found is None else str(found)


def failed_node_durations(error: BaseException) -> Mapping[str, int]:
    """The node that raised this and the nodes around it, with the milliseconds each had taken.

    Empty if no node raised it.
    """
    found = _blame_of(error)
    return {} if found is None else found.took_ms


def _note(error: Exception, node: str, line: str, started: float) -> None:
    found = _blame_of(error)
    if found is None:
        found = _Blame(line)
        error.add_note(found)
    found.took_ms[node] = round((monotonic() - started) * 1000)


def _blame_of(error: BaseException) -> _Blame | None:
    notes = getattr(error, "__notes__", ())  # missing until a note is added
    return next((note for note in notes if isinstance(note, _Blame)), None)


def _blame_line(node: str, error: BaseException) -> str:
    said = strip_control_characters(f"{type(error).__name__}: {error}").splitlines()[0].rstrip(": ")
    return f"node {node!r} of the blueprint raised {said} ({_place(error)})"


def _place(error: BaseException) -> str:
    """File and line where the blueprint's own code was, or the innermost where none was."""
    lines = list(walk_tb(error.__traceback__))
    theirs = [pair for pair in lines if not _is_ours(str(pair[0].f_globals.get("__name__")))]
    frame, line = theirs[0] if theirs else lines[-1]
    return f"{frame.f_code.co_filename}:{line}"


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] in _OURS and not module.startswith(_LIBRARY)
