"""What a person sees: results on stdout, everything else on stderr."""

import json
import logging
import os
import sys


def say(line: str) -> None:
    """One line for the person, on stderr."""
    sys.stderr.write(f"{line}\n")


def show(text: str) -> None:
    """A result, on stdout, at once: who reads it may wait for it."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def show_json(document: object) -> None:
    """The one JSON document of `--json`, on stdout."""
    show(json.dumps(document, indent=2, default=str))


class _Notes(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        say(f"note: {record.getMessage()}")


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
    logging.basicConfig(handlers=[handler], level=logging.INFO if debug else logging.WARNING)
