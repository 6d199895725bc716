"""What a command-line agent says and does, told live in short lines and kept for its result."""

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from contracts.gate import DENIED_TOOL
from nodes.agents.lines import one_line, tool_line
from nodes.agents.types import OnLine
from nodes.text import cap

_OUTPUT_CAP = 256 * 1024
_SUBJECTS = ("command", "file_path", "path", "pattern", "notebook_path", "query")
_MOST_CALLS = 1_000
_ID = re.compile(r"[\w.:+/=|-]{1,4000}", re.ASCII)


@dataclass
class Story:
    """One agent's story. A call that is never ended is never told; it was under way."""

    on_line: OnLine
    clock: Callable[[], float] = time.monotonic
    output: str = ""
    done: int = 0
    """Calls that came to an end, known or not."""
    _running: dict[str, tuple[str, str, float]] = field(default_factory=dict)

    def said(self, text: str) -> None:
        """The agent said something; the last it said is its output."""
        if text.strip():
            self.output = cap(text, _OUTPUT_CAP)
            self.on_line(one_line(text))

    def began(self, call: str, name: str, args: object) -> None:
        """The agent called a tool."""
        if len(self._running) < _MOST_CALLS:
            about = subject(args)
            if name == DENIED_TOOL:
                about = f"{text(args, 'call')}: {text(args, 'reason')}"
            self._running[call] = (name, about, self.clock())

    def ended(self, call: str, note: str) -> None:
        """The tool is done; a call that never began is left out."""
        self.done += 1
        name, about, began = self._running.pop(call, ("", "", 0.0))
        if name == DENIED_TOOL:
            self.on_line(one_line(f"denied: {about}"))
        elif name:
            self.on_line(tool_line(name, about, note, self.clock() - began))

    @property
    def under_way(self) -> str:
        """The calls that were not done, for the error of an agent that was stopped."""
        calls = (one_line(f"{name} {about}", 60) for name, about, _ in self._running.values())
        return "; ".join(list(calls)[:3])


def result_of(name: str, call: str) -> str | None:
    """The words by which a session names the result of this call; None when nobody can look for
    them: the agent makes its ids up, and they may hold anything."""
    return f'"{name}":"{call}"' if _ID.fullmatch(call) else None


def subject(args: object) -> str:
    """What a call is about: its command, else its path, else its pattern."""
    if not isinstance(args, Mapping):
        return ""
    return next((str(args[name]) for name in _SUBJECTS if args.get(name)), "")


def text(raw: object, *names: str) -> str:
    """The text under these names, one inside the other; empty when there is none."""
    for name in names:
        raw = raw.get(name) if isinstance(raw, Mapping) else None
    return raw if isinstance(raw, str) else ""


def blocks(message: object) -> list[Mapping[str, object]]:
    """The parts of a message's content."""
    content = message.get("content") if isinstance(message, Mapping) else None
    found = content if isinstance(content, list) else []
    return [block for block in found if isinstance(block, Mapping)]
