"""Files that the user names on the command line."""

import sys
from pathlib import Path

from contracts.errors import OptionInvalid
from contracts.files import write_atomically


def read_file(path: Path) -> str:
    """Return the text of a file; `-` reads stdin.

    Raises:
        OptionInvalid: the file cannot be read.
    """
    try:
        return sys.stdin.read() if str(path) == "-" else path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise OptionInvalid(f"cannot read {str(path)!r}: {error}") from error


def write_file(path: Path, text: str) -> None:
    """Write a file atomically; pipes and devices are written directly.

    Raises:
        OptionInvalid: the file cannot be written.
    """
    try:
        if path.exists() and not path.is_file():
            path.write_text(text)
        else:
            write_atomically(path, text)
    except OSError as error:
        raise OptionInvalid(f"cannot write {str(path)!r}: {error.strerror}") from error


def read_intent(path: Path | None, *, untrusted: bool) -> str:
    """Return the text of the `--intent-from` file, or an empty text without the option.

    Raises:
        OptionInvalid: the file cannot be read, or `--untrusted` is given without a file.
    """
    if path is None and untrusted:
        raise OptionInvalid("--untrusted needs --intent-from: name the file with the text")
    return read_file(path) if path is not None else ""
