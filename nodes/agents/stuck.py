"""Notices that a model no longer gets anywhere."""

import re
from dataclasses import dataclass

from contracts.tool import ToolCall

MAX_BAD_TURNS = 5
"""Turns in a row with only malformed or unknown calls, or with a truncated answer."""

MAX_SAME_CALLS = 5
"""Times in a row that a call returns the same result."""

_DURATION = re.compile(r"(?<!\d)\d+(\.\d+)?\s?(ms|s|seconds?)\b")


@dataclass
class StuckDetector:
    """Counts repetitions. Each method returns the reason to stop the agent, or None."""

    bad_turns: int = 0
    empty_turns: int = 0
    same_calls: int = 0
    last_call: tuple[str, str, str] = ("", "", "")

    def turn(self, *, bad: bool, why: str) -> str | None:
        """Count a turn with content."""
        self.empty_turns = 0
        self.bad_turns = self.bad_turns + 1 if bad else 0
        if self.bad_turns < MAX_BAD_TURNS:
            return None
        return f"{MAX_BAD_TURNS} turns in a row were invalid; the last one: {why}"

    def empty_turn(self, stop_reason: str) -> str | None:
        """Count a turn without content. The second one in a row stops the agent."""
        self.empty_turns += 1
        if self.empty_turns < 2:
            return None
        return f"the model gave an empty answer twice (stop reason {stop_reason!r})"

    def call(self, call: ToolCall, result: str) -> str | None:
        """Count a call. Results that differ only in durations are equal."""
        this = (call.name, call.arguments, _DURATION.sub("", result))
        self.same_calls = self.same_calls + 1 if this == self.last_call else 1
        self.last_call = this
        if self.same_calls < MAX_SAME_CALLS:
            return None
        return (
            f"the model repeats itself: {call.name} {call.arguments[:200]} "
            f"{MAX_SAME_CALLS} times in a row with the same result"
        )
