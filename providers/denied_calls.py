"""Denied calls: what the agent gets in their place, and what the model is told later.

The agent gets a call of a tool that nobody has, `denied`, with the reason in its arguments:
it answers that there is no such tool, and its loop goes on. When it sends the conversation
back, the model's own call is put in again, with the reason as its result.
"""

import json
from collections.abc import Mapping, Sequence

from contracts.model_access import DENIED_TOOL
from contracts.tool import Denied, ToolCall
from providers.model_request import Json


class DeniedCalls:
    """The denied calls of one agent."""

    def __init__(self) -> None:
        self._denied: dict[str, tuple[ToolCall, Denied]] = {}

    def deny(self, call: ToolCall, denied: Denied) -> ToolCall:
        """What the agent is sent instead of `call`."""
        self._denied[call.id] = (call, denied)
        reason = {"call": call.name, "reason": denied.message}
        return ToolCall(id=call.id, name=DENIED_TOOL, arguments=json.dumps(reason))

    def restore(self, messages: Sequence[Json]) -> Sequence[Json]:
        """The conversation as the model knows it."""
        if not self._denied:
            return messages
        return [self._restored(message) for message in messages]

    def _restored(self, message: Json) -> Json:
        denied = self._denied.get(str(message.get("tool_call_id")))
        if denied is not None:
            return {**message, "content": f"denied: {denied[1].message}"}
        calls = message.get("tool_calls")
        if not isinstance(calls, list):
            return message
        return {**message, "tool_calls": [self._call(call) for call in calls]}

    def _call(self, raw: object) -> object:
        found = self._denied.get(str(raw.get("id"))) if isinstance(raw, Mapping) else None
        if found is None or not isinstance(raw, Mapping):
            return raw
        return {**raw, "function": {"name": found[0].name, "arguments": _kept(found[0])}}


def _kept(call: ToolCall) -> str:
    """Arguments that every provider takes back: an object, and no megabytes."""
    try:
        whole = len(call.arguments) < 100_000 and isinstance(json.loads(call.arguments), dict)
    except (ValueError, RecursionError):
        whole = False
    return call.arguments if whole else "{}"
