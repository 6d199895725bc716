"""What was said in a run: JSONL, one event a line, enough to replay it as a script."""

import hashlib
import json
import re
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

Redact = Callable[[str], str]

_CHANGING = re.compile(
    r"(?<!\d)\d+(\.\d+)?\s?(ms|s|seconds?)\b"  # a million digits are looked at once, not from each
    r"|0x[0-9a-fA-F]{6,}|\d\d:\d\d:\d\d\S*"
)
_PIECE = 1 << 20
"""Characters that are looked at in one go: no other thread runs meanwhile."""


class Trajectory:
    """A file that only grows; several threads may write to it, each event is one line.

    Every text in an event, at any depth, goes through `redact` first.
    """

    def __init__(self, path: Path, *, redact: Redact) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.redact = redact
        self._lock = threading.Lock()
        self._file = path.open("a", encoding="utf-8")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Write no more: later events are dropped. Twice is fine."""
        with self._lock:
            self._file.close()

    def write(self, kind: str, **fields: object) -> None:
        """Add one event; it is on its way to the disk when this returns."""
        event = {"kind": kind, "time": datetime.now(UTC).isoformat(), **fields}
        line = json.dumps(_redacted(event, self.redact))
        with self._lock:
            if not self._file.closed:
                self._file.write(line + "\n")
                self._file.flush()


def stable_digest(text: str) -> str:
    """A short digest of a text, without durations, addresses and times of day."""
    made = hashlib.sha256()
    for start in range(0, len(text), _PIECE):
        kept = _CHANGING.sub("", text[start : start + _PIECE])
        made.update(kept.encode("utf-8", "replace"))
    return made.hexdigest()[:16]


def _redacted(value: object, redact: Redact) -> object:
    match value:
        case str():
            return redact(value)
        case Mapping():
            return {key: _redacted(part, redact) for key, part in value.items()}
        case list() | tuple():
            return [_redacted(part, redact) for part in value]
        case _:
            return value
