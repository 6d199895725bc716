"""What a person sees: results on stdout, everything else on stderr."""

import json
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from contextvars import ContextVar
from typing import NamedTuple

from contracts.errors import Unavailable


class _Document(NamedTuple):
    stdout: int
    told: bool = False


_DOCUMENT: ContextVar[_Document | None] = ContextVar("document", default=None)
"""Where the document of `--json` goes while stdout is kept for it, and whether it went there."""


def print_message(line: str) -> None:
    """One line for the person, on stderr."""
    sys.stderr.write(f"{line}\n")


def print_line(text: str) -> None:
    """A result, on stdout, at once: a reader may be waiting for it.

    Raises:
        Unavailable: there is no room where it goes.
        BrokenPipeError: nobody reads it any more.
    """
    try:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        with open(os.devnull, "w") as nowhere:  # noqa: PTH123 - a device, not a path of ours
            os.dup2(nowhere.fileno(), sys.stdout.fileno())  # the end would write it once more
        raise Unavailable(f"nothing can be written to stdout: {error.strerror}") from error


def print_bytes(content: bytes) -> None:
    """A result that programs read, on stdout as it is."""
    sys.stdout.flush()
    sys.stdout.buffer.write(content)
    sys.stdout.flush()


def print_json(document: object) -> None:
    """The one JSON document of `--json`, on stdout."""
    text = json.dumps(document, indent=2, default=str)
    kept = _DOCUMENT.get()
    if kept is None:
        print_line(text)
        return
    _DOCUMENT.set(kept._replace(told=True))
    try:
        with os.fdopen(os.dup(kept.stdout), "w") as stdout:
            stdout.write(f"{text}\n")
    except OSError as error:  # nobody reads it, or there is no room: what was done is done
        print_message(f"note: the document could not be written to stdout: {error.strerror}")


def print_result(document: object, line: str, as_json: bool) -> None:
    """A result: the document with `--json`, else the line."""
    if as_json:
        print_json(document)
    else:
        print_line(line)


def json_missing() -> bool:
    """Whether a document of `--json` is due."""
    kept = _DOCUMENT.get()
    return kept is not None and not kept.told


@contextmanager
def json_only_stdout() -> Iterator[None]:
    """Until the block ends `show_json` alone writes to stdout.

    What else is printed, by a blueprint and the programs it starts here too, goes to stderr.
    """
    sys.stdout.flush()
    kept = os.dup(1)
    token = _DOCUMENT.set(_Document(kept))
    os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(kept, 1)
        _DOCUMENT.reset(token)
        os.close(kept)


class _Notes(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        print_message(f"note: {record.getMessage()}")


_NOTES = _Notes(logging.WARNING)


def set_up_logging(*, debug: bool) -> None:
    """Libraries speak on stderr only with `--debug`; Prefect leaves a root that has a handler.

    What memory warns of, such as a model that is away, a person is told in any case.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    handler.setLevel(logging.DEBUG if debug else logging.CRITICAL + 1)
    if not debug:
        logging.getLogger("memory").addHandler(_NOTES)
        # Prefect has a handler of its own, and says at length that a server is gone.
        os.environ.setdefault("PREFECT_INTERNAL_LOGGING_LEVEL", "CRITICAL")
        logging.raiseExceptions = False  # Prefect writes to stderr each log that it cannot send
    logging.basicConfig(handlers=[handler], level=logging.INFO if debug else logging.WARNING)
