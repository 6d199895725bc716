"""Writes a run's trajectory: requests, replies and decisions as JSONL, enough for a replay."""

import hashlib
import json
import re
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

Redact = Callable[[str], str]

_VARYING = re.compile(
    r"(?<!\d)\d+(\.\d+)?\s?(ms|s|seconds?)\b"  # without (?<!\d) a million digits take hours
    r"|0x[0-9a-fA-F]{6,}|\d\d:\d\d:\d\d\S*"
)
_CHUNK = 1 << 20
"""Characters that one regular expression call searches: no other thread runs meanwhile."""


class Trajectory:
    """A file that events are appended to, one line each. Thread-safe.

    `redact` is applied to every text in an event, at any depth.
    """

    def __init__(self, path: Path, *, redact: Redact) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.redact = redact
        self._lock = threading.Lock()
        self._file = path.open("a", encoding="utf-8")

    def close(self) -> None:
        """Drop all later events. May be called twice."""
        with self._lock:
            self._file.close()

    def write(self, kind: str, **fields: object) -> None:
        """Append one event and flush it to the operating system."""
        event = {"kind": kind, "time": datetime.now(UTC).isoformat(), **fields}
        line = json.dumps(_redacted(event, self.redact))
        with self._lock:
            if not self._file.closed:
                self._file.write(line + "\n")
                self._file.flush()


def stable_digest(text: str) -> str:
    """Return a short digest of a text without durations, addresses and times of day."""
    digest = hashlib.sha256()
    for start in range(0, len(text), _CHUNK):
        stable = _VARYING.sub("", text[start : start + _CHUNK])
        digest.update(stable.encode("utf-8", "replace"))
    return digest.hexdigest()[:16]


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
