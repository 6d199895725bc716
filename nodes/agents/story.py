"""What a command-line agent says and does, told live in short lines and kept for its result."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from contracts.gate import DENIED_TOOL
from contracts.json import text_in
from nodes.agents.events import subject
from nodes.agents.lines import one_line, tool_line
from nodes.agents.types import OnLine
from nodes.text import cap

_OUTPUT_CAP = 256 * 1024
_MOST_CALLS = 1_000


@dataclass
class LiveStory:
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
                about = f"{text_in(args, 'call')}: {text_in(args, 'reason')}"
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
