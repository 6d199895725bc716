"""What commands about memory do: tell a result, read and write files, let a person edit a text."""

import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.terminal import say, show, show_json
from contracts.errors import HarnessError, OptionInvalid


def tell(document: object, line: str, as_json: bool) -> None:
    """The document with --json, else the line."""
    if as_json:
        show_json(document)
    else:
        show(line)


def whole_run(run: str | None) -> str | None:
    """The id of the run of this machine that begins so; else what was given."""
    from flows.runs import whole_id
    from flows.settings import load_settings

    return whole_id(load_settings().runs, run) if run else run


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


def intent_text(path: Path | None, *, untrusted: bool) -> str:
    """The text of `--intent-from`, - for stdin; empty when none is named.

    Raises:
        OptionInvalid: it cannot be read, or `--untrusted` is about nothing.
    """
    if path is None and untrusted:
        raise OptionInvalid("--untrusted is about the file of --intent-from: name one")
    return read_file(path) if path is not None else ""


def edited(text: str, *, name: str = "playbook.json") -> str | None:
    """The text as the person leaves it in $VISUAL or $EDITOR; None when they changed nothing.

    Raises:
        OptionInvalid: the editor cannot be started, says that it failed, or saved no UTF-8; then
            it says where the text is.
    """
    from flows.environment import environment

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
    from flows.settings import load_settings

    path = load_settings().home / "edits" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text)
    return path


@contextmanager
def kept_when_refused(text: str, name: str, taken: str = "") -> Iterator[None]:
    """What a person wrote is put aside, and they are told where, when it cannot be taken.

    `taken` says how it could be, once it is right.
    """
    try:
        yield
    except HarnessError:
        path = _put_aside(name, text.encode(errors="surrogateescape"))
        say(": ".join(filter(None, (f"your text is in {path}", taken))))
        raise
