"""Output of command-line agents: JSON lines, and the messages and tool calls in them."""

import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from string import Template

from contracts.json import as_mapping, as_mappings, text_at
from contracts.model_access import DENIED_TOOL
from contracts.sandbox import Stream
from nodes.agents.tool_calls import tool_line
from nodes.agents.types import OnLine
from nodes.text import one_line, truncate_middle

Event = Mapping[str, object]

MAX_LINE = 32 << 20
"""Bytes of one line; a longer line counts as garbage and is not kept in memory."""

_STDERR_KEPT = 4096
_GARBAGE_KEPT = 5
_MAX_OUTPUT = 256 * 1024
_MAX_CALLS = 1_000
_SUBJECTS = ("command", "file_path", "filePath", "path", "pattern", "notebook_path", "query")
_ID = re.compile(r"[\w.:+/=|-]{1,4000}", re.ASCII)


@dataclass
class JsonLines:
    """Parses output into events for `on_event`. Lines end at LF only, as the agents write them."""

    on_event: Callable[[Event], None]
    garbage: int = 0
    last_garbage: list[str] = field(default_factory=list)
    stderr: bytes = b""
    _parts: list[bytes] = field(default_factory=list)
    _size: int = 0

    def feed(self, stream: Stream, data: bytes) -> None:
        """Take bytes as they arrive."""
        if stream == "stderr":
            self.stderr = (self.stderr + data)[-_STDERR_KEPT:]
            return
        *complete, rest = data.split(b"\n")
        for piece in complete:
            self._add(piece)
            self._end_line()
        self._add(rest)

    def close(self) -> None:
        """Take the last line if it had no newline."""
        if self._size:
            self._end_line()

    def _add(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size <= MAX_LINE:
            self._parts.append(piece)
        else:
            self._parts = []

    def _end_line(self) -> None:
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
            self.garbage += 1
            shown = line[:200].decode("utf-8", "replace")
            self.last_garbage = [*self.last_garbage, shown][-_GARBAGE_KEPT:]


def content_blocks(message: object) -> list[Event]:
    """Return the blocks of a message's content."""
    return as_mappings(as_mapping(message).get("content"))


def result_marker(template: str, call_id: str) -> str | None:
    """Return the text that marks the result of the call `$call` in a session file.

    None if there is none, or if the id is not safe to search for: agents choose their ids.
    """
    if not template or not _ID.fullmatch(call_id):
        return None
    return Template(template).substitute(call=call_id)


@dataclass
class AgentActivity:
    """Shows messages and tool calls of an agent live. Calls without a result stay unfinished."""

    on_line: OnLine
    clock: Callable[[], float] = time.monotonic
    output: str = ""
    """The agent's last message."""
    session: str = ""
    """Id of the conversation, if the agent chose it itself."""
    finished_calls: int = 0
    """Number of calls that ended, including calls whose beginning was not seen, but no denied
    ones: some agents do not report these."""
    _running: dict[str, tuple[str, str, float]] = field(default_factory=dict)

    def on_text(self, text: str) -> None:
        """The agent wrote a message."""
        if text.strip():
            self.output = truncate_middle(text, _MAX_OUTPUT)
            self.on_line(one_line(text))

    def on_tool_start(self, call_id: str, name: str, arguments: object) -> None:
        """The agent called a tool."""
        if len(self._running) >= _MAX_CALLS:
            return
        args = as_mapping(arguments)
        subject = next((str(args[key]) for key in _SUBJECTS if args.get(key)), "")
        if name == DENIED_TOOL:
            call, reason = text_at(args, "call"), text_at(args, "reason")
            subject = f"{call}: {reason}" if call else "a call"
        self._running[call_id] = (name, subject, self.clock())

    def on_tool_end(self, call_id: str, note: str) -> None:
        """The tool call ended."""
        name, subject, began = self._running.pop(call_id, ("", "", 0.0))
        self.finished_calls += name != DENIED_TOOL
        if name == DENIED_TOOL:
            self.on_line(one_line(f"denied: {subject}"))
        elif name:
            self.on_line(tool_line(name, subject, note, self.clock() - began))

    @property
    def unfinished_calls(self) -> str:
        """Up to three calls that did not end, for the error of an agent that was stopped."""
        calls = (one_line(f"{name} {about}", 60) for name, about, _ in self._running.values())
        return "; ".join(list(calls)[:3])
