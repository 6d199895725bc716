"""Files that a person names: read, and written whole or not at all."""

import shutil
import sys
import tempfile
from pathlib import Path

from contracts.errors import OptionInvalid


def read_file(path: Path) -> str:
    """The text of a file, - for stdin.

    Raises:
        OptionInvalid: it cannot be read.
    """
    try:
        return sys.stdin.read() if str(path) == "-" else path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise OptionInvalid(f"cannot read {str(path)!r}: {error}") from error


def write_file(path: Path, text: str) -> None:
    """Write what a person asked for; what stood there stays until all of it is written.

    Raises:
        OptionInvalid: it cannot be written there.
    """
    try:
        if path.exists() and not path.is_file():  # a pipe, a terminal
            path.write_text(text)
            return
        own = path.resolve()  # a link goes on leading there
        with tempfile.TemporaryDirectory(prefix=f".{own.name}-", dir=own.parent) as beside:
            part = Path(beside) / own.name
            part.write_text(text)
            if own.exists():
                shutil.copymode(own, part)
            part.replace(own)
    except OSError as error:
        raise OptionInvalid(f"cannot write {str(path)!r}: {error.strerror}") from error


def read_intent(path: Path | None, *, untrusted: bool) -> str:
    """The text of `--intent-from`, - for stdin; empty when none is named.

    Raises:
        OptionInvalid: it cannot be read, or `--untrusted` is about nothing.
    """
    if path is None and untrusted:
        raise OptionInvalid("--untrusted is about the file of --intent-from: name one")
    return read_file(path) if path is not None else ""
