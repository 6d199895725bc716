"""A person's editor, and what they wrote when it cannot be taken."""

import shlex
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.terminal.output import print_message
from contracts.errors import HarnessError, OptionInvalid


def edit_text(text: str, *, name: str = "playbook.json") -> str | None:
    """The text as the person leaves it in $VISUAL or $EDITOR; None when they changed nothing.

    Raises:
        OptionInvalid: the editor cannot be started, says that it failed, or saved no UTF-8; then
            it says where the text is.
    """
    from flows.config.environment import environment

    editor = environment().get("VISUAL") or environment().get("EDITOR") or "vi"
    with tempfile.TemporaryDirectory(prefix="harness-edit-") as folder:
        path = Path(folder) / name
        path.write_text(text)
        try:
            subprocess.run([*shlex.split(editor), str(path)], check=True)
        except (OSError, ValueError, subprocess.CalledProcessError) as error:
            raise OptionInvalid(f"editor {editor!r} failed ({error}): set EDITOR") from error
        after = _read_edit(path)
    return None if after == text else after


def _read_edit(path: Path) -> str:
    try:
        return path.read_text()
    except UnicodeDecodeError as error:
        kept = _put_aside(path.name, path.read_bytes())
        raise OptionInvalid(f"the editor saved no UTF-8: your text is in {kept}") from error


def _put_aside(name: str, text: bytes) -> Path:
    from flows.config.settings import load_settings

    path = load_settings().home / "edits" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text)
    return path


@contextmanager
def save_if_rejected(text: str, name: str, taken: str = "") -> Iterator[None]:
    """What a person wrote is put aside, and they are told where, when it cannot be taken.

    `taken` says how it could be, once it is right.
    """
    try:
        yield
    except HarnessError:
        path = _put_aside(name, text.encode(errors="surrogateescape"))
        print_message(": ".join(filter(None, (f"your text is in {path}", taken))))
        raise
