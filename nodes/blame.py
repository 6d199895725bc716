"""Which node it was: what one raises carries its name and the line it came from."""

from collections.abc import Iterator
from contextlib import contextmanager
from traceback import walk_tb

from contracts.errors import HarnessError, NodeBroken
from nodes.text import inert

_OURS = {"blueprints", "contracts", "flows", "memory", "nodes", "policy", "providers", "sandbox"}
_LIBRARY = "blueprints.library."


class _Blame(str):
    """A note on an exception, told from the notes of others."""

    __slots__ = ()


@contextmanager
def blaming(node: str) -> Iterator[None]:
    """Note this node on whatever the block raises, unless a node inside it is noted already.

    Raises:
        NodeBroken: the block wanted to end the process.
    """
    try:
        yield
    except HarnessError:
        raise
    except SystemExit as error:
        raise NodeBroken(_blame_line(node, error)) from error
    except Exception as error:  # any bug of a node: it goes on its way, with the node's name
        if blame(error) is None:
            error.add_note(_Blame(_blame_line(node, error)))
        raise


def blame(error: BaseException) -> str | None:
    """One line on the node that raised this, and where; None when no node did."""
    notes = getattr(error, "__notes__", ())  # only there once a note was added
    return next((str(note) for note in notes if isinstance(note, _Blame)), None)


def _blame_line(node: str, error: BaseException) -> str:
    said = inert(f"{type(error).__name__}: {error}").splitlines()[0].rstrip(": ")
    return f"node {node!r} of the blueprint raised {said} ({_place(error)})"


def _place(error: BaseException) -> str:
    """File and line where the blueprint's own code was, or the innermost where none was."""
    lines = list(walk_tb(error.__traceback__))
    theirs = [pair for pair in lines if not _is_ours(str(pair[0].f_globals.get("__name__")))]
    frame, line = theirs[0] if theirs else lines[-1]
    return f"{frame.f_code.co_filename}:{line}"


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] in _OURS and not module.startswith(_LIBRARY)
