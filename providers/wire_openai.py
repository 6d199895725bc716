"""Our messages and tools in OpenAI's Chat Completions form, and back."""

import json
from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import BaseModel, JsonValue

from contracts.chat import Message
from contracts.tool import Tool, ToolCall


class _Function(BaseModel, frozen=True, extra="forbid"):
    name: str
    arguments: str | dict[str, JsonValue] = "{}"
    """JSON as text, as OpenAI sends it, or an object, as people write it."""


class _Call(BaseModel, frozen=True, extra="forbid"):
    id: str = ""
    type: Literal["function"] = "function"
    function: _Function


class AssistantMessage(BaseModel, frozen=True, extra="forbid"):
    """What an assistant says, as written in a file."""

    role: Literal["assistant"] = "assistant"
    content: str | None = None
    tool_calls: list[_Call] | None = None

    def to_message(self, number: int) -> Message:
        """The same as ours; a call without an id gets one from `number` and its place."""
        calls = tuple(
            ToolCall(
                id=call.id or f"call_{number}_{place}",
                name=call.function.name,
                arguments=_as_text(call.function.arguments),
            )
            for place, call in enumerate(self.tool_calls or (), start=1)
        )
        return Message(role="assistant", content=self.content or "", tool_calls=calls)


class _HeardFunction(BaseModel, frozen=True, extra="ignore"):
    name: str | None = None
    arguments: str | None = None


class _HeardCall(BaseModel, frozen=True, extra="ignore"):
    id: str | None = None
    function: _HeardFunction


class _Heard(BaseModel, frozen=True, extra="ignore"):
    content: str | None = None
    tool_calls: list[_HeardCall] | None = None


def message_to_openai(message: Message) -> dict[str, object]:
    """One message in OpenAI's form; an assistant that only calls tools has no content."""
    out: dict[str, object] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        out["content"] = message.content or None
        out["tool_calls"] = [_call_out(call) for call in message.tool_calls]
    if message.tool_call_id is not None:
        out["tool_call_id"] = message.tool_call_id
    return out


def message_from_openai(raw: object) -> Message:
    """An assistant's message as a provider sent it; keys that mean nothing to us are left.

    Raises:
        ValueError: it is no such message.
    """
    heard = _Heard.model_validate(raw)
    calls = tuple(
        ToolCall(
            id=call.id or f"call_{place}",
            name=call.function.name or "",
            arguments=call.function.arguments or "",
        )
        for place, call in enumerate(heard.tool_calls or (), start=1)
    )
    return Message(role="assistant", content=heard.content or "", tool_calls=calls)


def tools_to_openai(tools: Sequence[Tool]) -> list[Mapping[str, object]]:
    """Tool definitions in OpenAI's form."""
    return [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": dict(tool.parameters),
            },
        }
        for tool in tools
    ]


def _call_out(call: ToolCall) -> dict[str, object]:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function}


def _as_text(arguments: str | dict[str, JsonValue]) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)
