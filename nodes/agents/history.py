"""What of a model's reply goes back into the conversation. Pure."""

import json
import re
from dataclasses import replace

from contracts.chat import Message
from contracts.tool import ToolCall
from nodes.text import truncate_middle

_SAID_CAP = 100_000
_ARGUMENTS_CAP = 2_000_000
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")


def provider_safe(message: Message) -> Message:
    """The message in a form that every provider takes back.

    Very long text is shortened. A call whose arguments are no JSON object keeps none,
    and a tool name keeps letters, digits, `_` and `-` only: providers refuse a whole
    conversation for less. Calls have ids.
    """
    calls = tuple(_keepable_call(c, place) for place, c in enumerate(message.tool_calls, start=1))
    return replace(message, content=truncate_middle(message.content, _SAID_CAP), tool_calls=calls)


def arguments_too_long(call: ToolCall) -> bool:
    """True for a call with more arguments than a conversation can carry."""
    return len(call.arguments) > _ARGUMENTS_CAP


def _keepable_call(call: ToolCall, place: int) -> ToolCall:
    return ToolCall(
        id=call.id or f"call_{place}",
        name=_NOT_IN_NAMES.sub("_", call.name)[:64] or "unnamed",
        arguments=call.arguments if _is_object(call) else "{}",
    )


def _is_object(call: ToolCall) -> bool:
    if arguments_too_long(call):
        return False
    try:
        return isinstance(json.loads(call.arguments), dict)
    except (ValueError, RecursionError):  # a number of thousands of digits is the plain one
        return False
