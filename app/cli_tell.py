"""What every command about memory does: tell a result, or let a person edit a text."""

import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from app.terminal import show, show_json
from contracts.errors import OptionInvalid


def tell(document: object, line: str, as_json: bool) -> None:
    """The document with --json, else the line."""
    if as_json:
        show_json(document)
    else:
        show(line)


def intent_text(path: Path | None, *, untrusted: bool) -> str:
    """The text of `--intent-from`, - for stdin; empty when none is named.

    Raises:
        OptionInvalid: it cannot be read, or `--untrusted` is about nothing.
    """
    if path is None:
        if untrusted:
            raise OptionInvalid("--untrusted is about the file of --intent-from: name one")
        return ""
    try:
        return sys.stdin.read() if str(path) == "-" else path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise OptionInvalid(f"--intent-from {str(path)!r} cannot be read: {error}") from error


def edited(text: str, *, name: str = "playbook.json") -> str | None:
    """The text as the person leaves it in $VISUAL or $EDITOR; None when they changed nothing.

    Raises:
        OptionInvalid: the editor cannot be started, or says that it failed.
    """
    from flows.settings import environment

    editor = environment().get("VISUAL") or environment().get("EDITOR") or "vi"
    with tempfile.TemporaryDirectory(prefix="harness-edit-") as folder:
        path = Path(folder) / name
        path.write_text(text)
        try:
            subprocess.run([*shlex.split(editor), str(path)], check=True)
        except (OSError, ValueError, subprocess.CalledProcessError) as error:
            raise OptionInvalid(f"editor {editor!r} failed ({error}): set EDITOR") from error
        after = path.read_text()
    return None if after == text else after
