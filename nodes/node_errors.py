"""Exceptions of a blueprint's own code, with the node that raised them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from time import monotonic
from traceback import walk_tb

from contracts.errors import NodeBroken, Unavailable
from nodes.text import strip_control_characters

_ROOMS = {"blueprints", "contracts", "flows", "memory", "nodes", "policy", "providers", "sandbox"}
_LIBRARY = "blueprints.library."


class _NodeNote(str):
    """An exception note: one line about the innermost node that raised it."""

    def __init__(self, _: str) -> None:
        self.durations_ms: dict[str, int] = {}
        """Milliseconds until the error, for that node and for each node around it."""


@contextmanager
def attribute_errors(node: str) -> Iterator[None]:
    """Add a note with the node's name and duration to any exception of the block.

    `Unavailable` gets no note, because an outage is not the node's fault.

    Raises:
        NodeBroken: the block tried to exit the process.
    """
    started = monotonic()
    try:
        yield
    except Unavailable:
        raise
    except SystemExit as error:
        broken = NodeBroken(_describe(node, error))
        _add_note(broken, node, str(broken), started)
        raise broken from error
    except Exception as error:  # a bug in the node: annotated and raised again
        _add_note(error, node, _describe(node, error), started)
        raise


def describe_node_error(error: BaseException) -> str | None:
    """Return one line with the node that raised the error and the place, or None."""
    note = _note_of(error)
    return None if note is None else str(note)


def failed_node_durations(error: BaseException) -> Mapping[str, int]:
    """Return the milliseconds until the error, for its node and each node around it."""
    note = _note_of(error)
    return {} if note is None else note.durations_ms


def _add_note(error: Exception, node: str, line: str, started: float) -> None:
    note = _note_of(error)
    if note is None:
        note = _NodeNote(line)
        error.add_note(note)
    note.durations_ms[node] = round((monotonic() - started) * 1000)


def _note_of(error: BaseException) -> _NodeNote | None:
    notes = getattr(error, "__notes__", ())  # the attribute exists only after add_note
    return next((note for note in notes if isinstance(note, _NodeNote)), None)


def _describe(node: str, error: BaseException) -> str:
    if isinstance(error, NodeBroken):  # its message has the place
        return strip_control_characters(f"node {node!r} of the blueprint failed: {error}")
    text = strip_control_characters(f"{type(error).__name__}: {error}")
    first_line = text.splitlines()[0].rstrip(": ")
    return f"node {node!r} of the blueprint raised {first_line} ({_place(error)})"


def _place(error: BaseException) -> str:
    """Return file and line of the first frame outside Harness, or of the innermost frame."""
    frames = list(walk_tb(error.__traceback__))
    outside = [pair for pair in frames if not is_harness(str(pair[0].f_globals.get("__name__")))]
    frame, line = outside[0] if outside else frames[-1]
    return f"{frame.f_code.co_filename}:{line}"


def is_harness(module: str) -> bool:
    """Return True for our own modules, except the built-in blueprints."""
    return module.partition(".")[0] in _ROOMS and not module.startswith(_LIBRARY)
