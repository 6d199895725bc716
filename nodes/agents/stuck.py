"""Notices a model that gets nowhere."""

import re
from dataclasses import dataclass

from contracts.tool import ToolCall

BAD_TURNS = 5
"""Turns in a row with nothing but malformed or unknown calls, or a cut-off answer."""

SAME_CALLS = 5
"""Times in a row that one call gives one result."""

_DURATION = re.compile(r"(?<!\d)\d+(\.\d+)?\s?(ms|s|seconds?)\b")


@dataclass
class StuckDetector:
    """What happened in a row so far; each method gives the reason to stop, or None."""

    bad_turns: int = 0
    empty_turns: int = 0
    same_calls: int = 0
    last_call: tuple[str, str, str] = ("", "", "")

    def turn(self, *, bad: bool, why: str) -> str | None:
        """Count one turn that said something."""
        self.empty_turns = 0
        self.bad_turns = self.bad_turns + 1 if bad else 0
        if self.bad_turns < BAD_TURNS:
            return None
        return f"the model answered nonsense {BAD_TURNS} times in a row; at last: {why}"

    def empty(self, stop_reason: str) -> str | None:
        """Count one empty turn; the second in a row is one too many."""
        self.empty_turns += 1
        if self.empty_turns < 2:
            return None
        return f"the model answered nothing, also when reminded (stop reason {stop_reason!r})"

    def call(self, call: ToolCall, result: str) -> str | None:
        """Count one call; results that differ in durations only are the same."""
        this = (call.name, call.arguments, _DURATION.sub("", result))
        self.same_calls = self.same_calls + 1 if this == self.last_call else 1
        self.last_call = this
        if self.same_calls < SAME_CALLS:
            return None
        return (
            f"the model repeats itself: {call.name} {call.arguments[:200]} "
            f"{SAME_CALLS} times in a row with the same result"
        )
