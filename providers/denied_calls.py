"""Denied tool calls: the agent gets a refusal, the model later gets its own call back.

In place of a denied call the agent gets a call of the tool `denied`, which does not exist,
with the reason in its arguments. It answers that there is no such tool and goes on. When it
sends the conversation back, the original call is restored, with the reason as its result.
"""

import json
from collections.abc import Mapping, Sequence

from contracts.model_access import DENIED_TOOL
from contracts.tool import Denied, ToolCall
from providers.protocol import Json

_MAX_RESTORED = 100_000
"""Characters of arguments; longer ones are not sent to the model again."""


class DeniedCalls:
    """The denied calls of one agent."""

    def __init__(self) -> None:
        self._denied: dict[str, tuple[ToolCall, Denied]] = {}

    def deny(self, call: ToolCall, denied: Denied) -> ToolCall:
        """Return the call that the agent gets instead."""
        self._denied[call.id] = (call, denied)
        reason = {"call": call.name, "reason": denied.message}
        return ToolCall(id=call.id, name=DENIED_TOOL, arguments=json.dumps(reason))

    def restore(self, messages: Sequence[Json]) -> Sequence[Json]:
        """Return the conversation with the model's own calls."""
        return [self._restore(message) for message in messages]

    def _restore(self, message: Json) -> Json:
        found = self._denied.get(str(message.get("tool_call_id")))
        if found is not None:
            return {**message, "content": f"denied: {found[1].message}"}
        calls = message.get("tool_calls")
        if not isinstance(calls, list):
            return message
        return {**message, "tool_calls": [self._restore_call(call) for call in calls]}

    def _restore_call(self, raw: object) -> object:
        found = self._denied.get(str(raw.get("id"))) if isinstance(raw, Mapping) else None
        if found is None or not isinstance(raw, Mapping):
            return raw
        call, _ = found
        return {**raw, "function": {"name": call.name, "arguments": _valid_arguments(call)}}


def _valid_arguments(call: ToolCall) -> str:
    """Return the arguments if they are an object, which every provider accepts, else `{}`."""
    try:
        parsed = json.loads(call.arguments) if len(call.arguments) < _MAX_RESTORED else None
    except (ValueError, RecursionError):
        parsed = None
    return call.arguments if isinstance(parsed, dict) else "{}"
