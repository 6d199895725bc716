"""Writing a file whole: whoever reads it sees the old one or the new one, never half."""

import os
import shutil
from contextlib import suppress
from pathlib import Path


def write_atomically(path: Path, text: str, *, private: bool = False) -> None:
    """Write the text beside the file, then let it take the file's place.

    A first one is on the disk before it has its name; a later one replaces it in that order anyway.
    A `private` one is for this user only; another has the rights of the one that it replaces. A
    link goes on leading where it led.

    Raises:
        OSError: it cannot be written; the old one is still there.
    """
    own = path.resolve()
    part = own.with_suffix(".part")
    try:
        part.unlink(missing_ok=True)  # one that was left behind may be for others to read
        part.touch(mode=0o600 if private else 0o666)
        with part.open("w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)
            if not own.exists():
                file.flush()
                os.fsync(file.fileno())
            elif not private:
                shutil.copymode(own, part)
        part.replace(own)
    except OSError:
        with suppress(OSError):  # the first one says what is wrong
            part.unlink(missing_ok=True)
        raise
