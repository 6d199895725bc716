"""What a command-line agent prints, line by line, JSON where we are lucky; and what is in it."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from contracts.json import as_mapping, as_mappings
from contracts.sandbox import Stream

Event = Mapping[str, object]

MAX_LINE = 32 << 20
"""Bytes of one line; what is longer is garbage, and its memory is let go."""

_KEPT_GARBAGE = 5
_SUBJECTS = ("command", "file_path", "path", "pattern", "notebook_path", "query")
_ID = re.compile(r"[\w.:+/=|-]{1,4000}", re.ASCII)


@dataclass
class JsonLines:
    """Cuts output into events for `on_event`; splits on LF only, as the agents do."""

    on_event: Callable[[Event], None]
    garbage: int = 0
    last_garbage: list[str] = field(default_factory=list)
    stderr: bytes = b""
    _parts: list[bytes] = field(default_factory=list)
    _size: int = 0

    def feed(self, stream: Stream, data: bytes) -> None:
        """Take bytes as they arrive; of stderr the last 4 KiB are kept."""
        if stream == "stderr":
            self.stderr = (self.stderr + data)[-4096:]
            return
        *whole, rest = data.split(b"\n")
        for piece in whole:
            self._add(piece)
            self._end()
        self._add(rest)

    def close(self) -> None:
        """Take what is left of a last line that had no newline."""
        if self._size:
            self._end()

    def _add(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size <= MAX_LINE:
            self._parts.append(piece)
        else:
            self._parts = []

    def _end(self) -> None:
        line, too_long = b"".join(self._parts).strip(), self._size > MAX_LINE
        self._parts, self._size = [], 0
        if not line and not too_long:
            return
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            event = None
        if isinstance(event, dict):
            self.on_event(event)
        else:
            self._complain(line)

    def _complain(self, line: bytes) -> None:
        self.garbage += 1
        shown = line[:200].decode("utf-8", "replace")
        self.last_garbage = [*self.last_garbage, shown][-_KEPT_GARBAGE:]


def result_marker(name: str, call: str) -> str | None:
    """The words by which a session names the result of this call; None when nobody can look for
    them: the agent makes its ids up, and they may hold anything."""
    return f'"{name}":"{call}"' if _ID.fullmatch(call) else None


def call_subject(args: object) -> str:
    """What a call is about: its command, else its path, else its pattern."""
    given = as_mapping(args)
    return next((str(given[name]) for name in _SUBJECTS if given.get(name)), "")


def content_blocks(message: object) -> list[Event]:
    """The parts of a message's content."""
    return as_mappings(as_mapping(message).get("content"))
