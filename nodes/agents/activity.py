"""What a command-line agent says and does, told live in short lines and kept for its result."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from contracts.json import text_at
from contracts.model_access import DENIED_TOOL
from nodes.agents.events import call_subject
from nodes.agents.lines import one_line, tool_line
from nodes.agents.types import OnLine
from nodes.text import truncate_middle

_OUTPUT_CAP = 256 * 1024
_MOST_CALLS = 1_000


@dataclass
class AgentActivity:
    """One agent's story. A call that is never ended is never told; it was under way."""

    on_line: OnLine
    clock: Callable[[], float] = time.monotonic
    output: str = ""
    finished_calls: int = 0
    """Calls that came to an end, known or not."""
    _running: dict[str, tuple[str, str, float]] = field(default_factory=dict)

    def on_text(self, text: str) -> None:
        """The agent said something; the last it said is its output."""
        if text.strip():
            self.output = truncate_middle(text, _OUTPUT_CAP)
            self.on_line(one_line(text))

    def on_tool_start(self, call: str, name: str, args: object) -> None:
        """The agent called a tool."""
        if len(self._running) < _MOST_CALLS:
            about = call_subject(args)
            if name == DENIED_TOOL:
                about = f"{text_at(args, 'call')}: {text_at(args, 'reason')}"
            self._running[call] = (name, about, self.clock())

    def on_tool_end(self, call: str, note: str) -> None:
        """The tool is done; a call that never began is left out."""
        self.finished_calls += 1
        name, about, began = self._running.pop(call, ("", "", 0.0))
        if name == DENIED_TOOL:
            self.on_line(one_line(f"denied: {about}"))
        elif name:
            self.on_line(tool_line(name, about, note, self.clock() - began))

    @property
    def unfinished_calls(self) -> str:
        """The calls that were not done, for the error of an agent that was stopped."""
        calls = (one_line(f"{name} {about}", 60) for name, about, _ in self._running.values())
        return "; ".join(list(calls)[:3])
