"""Edits a text in the user's editor, and saves the text if it is rejected."""

import shlex
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.terminal.output import print_message
from contracts.errors import HarnessError, OptionInvalid
from flows.config.environment import environment
from flows.config.settings import load_settings


def edit_text(text: str, *, name: str = "playbook.json") -> str | None:
    """Open the text in $VISUAL or $EDITOR and return the result, or None if it is unchanged.

    Raises:
        OptionInvalid: the editor cannot be started or fails, or it saved no UTF-8. In the last
            case the message names the file with the text.
    """
    editor = environment().get("VISUAL") or environment().get("EDITOR") or "vi"
    with tempfile.TemporaryDirectory(prefix="harness-edit-") as folder:
        path = Path(folder) / name
        path.write_text(text)
        try:
            subprocess.run([*shlex.split(editor), str(path)], check=True)
        except (OSError, ValueError, subprocess.CalledProcessError) as error:
            raise OptionInvalid(f"editor {editor!r} failed ({error}): set EDITOR") from error
        try:
            edited = path.read_text()
        except UnicodeDecodeError as error:
            saved = _save(name, path.read_bytes())
            raise OptionInvalid(
                f"the editor did not save UTF-8: your text is in {saved}"
            ) from error
    return None if edited == text else edited


@contextmanager
def save_if_rejected(text: str, name: str, hint: str = "") -> Iterator[None]:
    """Save the user's text in the home if the block raises one of our errors.

    A message names the file, followed by `hint`, the command that reads the file.
    """
    try:
        yield
    except HarnessError:
        saved = _save(name, text.encode(errors="surrogateescape"))
        print_message(": ".join(filter(None, (f"your text is in {saved}", hint))))
        raise


def _save(name: str, text: bytes) -> Path:
    path = load_settings().home / "edits" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text)
    return path
