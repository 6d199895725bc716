"""Messages and tools in the form of OpenAI's Chat Completions, to and from our own types."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from pydantic import BaseModel, Field, JsonValue

from contracts.chat import Message, Usage
from contracts.json import as_mapping
from contracts.tool import Tool, ToolCall

_INLINE_DATA = re.compile(r"data:[\w.+-]+/[\w.+-]+;base64,")


class _Function(BaseModel, frozen=True, extra="forbid"):
    name: str
    arguments: str | dict[str, JsonValue] = "{}"
    """JSON as text, as OpenAI sends it, or an object, as people write it."""


class _Call(BaseModel, frozen=True, extra="forbid"):
    id: str = ""
    type: Literal["function"] = "function"
    function: _Function


class AssistantMessage(BaseModel, frozen=True, extra="forbid"):
    """An assistant message as it is written in a script file."""

    role: Literal["assistant"] = "assistant"
    content: str | None = None
    tool_calls: list[_Call] | None = None

    def to_message(self, number: int) -> Message:
        """Return our own type; a call without an id becomes `call_<number>_<place>`."""
        calls = tuple(
            ToolCall(
                id=call.id or f"call_{number}_{place}",
                name=call.function.name,
                arguments=_as_text(call.function.arguments),
            )
            for place, call in enumerate(self.tool_calls or (), start=1)
        )
        return Message(role="assistant", content=self.content or "", tool_calls=calls)


class _ReceivedFunction(BaseModel, frozen=True, extra="ignore"):
    name: str | None = None
    arguments: str | None = None


class _ReceivedCall(BaseModel, frozen=True, extra="ignore"):
    id: str | None = None
    function: _ReceivedFunction


class _ReceivedMessage(BaseModel, frozen=True, extra="ignore"):
    content: str | None = None
    tool_calls: list[_ReceivedCall] | None = None


class ChatChoice(BaseModel, frozen=True, extra="ignore"):
    """One of the alternatives in an answer; Harness asks for one only."""

    message: dict[str, object]
    finish_reason: str = "stop"


class ChatAnswer(BaseModel, frozen=True, extra="ignore"):
    """A complete answer of a provider, and of the gateway."""

    choices: list[ChatChoice] = Field(min_length=1)
    model: str | None = None
    usage: dict[str, object] | None = None


def message_to_openai(message: Message) -> dict[str, object]:
    """Return a message in OpenAI's form; content is null beside tool calls without text."""
    out: dict[str, object] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        out["content"] = message.content or None
        out["tool_calls"] = [call_to_openai(call) for call in message.tool_calls]
    if message.tool_call_id is not None:
        out["tool_call_id"] = message.tool_call_id
    return out


def message_from_openai(raw: object) -> Message:
    """Return an assistant's message as a provider sent it, without unknown fields.

    Raises:
        ValueError: `raw` is not an assistant's message.
    """
    received = _ReceivedMessage.model_validate(raw)
    calls = tuple(
        ToolCall(
            id=call.id or f"call_{place}",
            name=call.function.name or "",
            arguments=call.function.arguments or "",
        )
        for place, call in enumerate(received.tool_calls or (), start=1)
    )
    return Message(role="assistant", content=received.content or "", tool_calls=calls)


def call_to_openai(call: ToolCall) -> dict[str, object]:
    """Return a tool call in OpenAI's form."""
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function}


def arguments_object(arguments: str) -> Mapping[str, object]:
    """Return a call's arguments as an object; other text under a name that no tool takes."""
    try:
        parsed = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        parsed = None
    return parsed if isinstance(parsed, dict) else {"malformed": arguments}


def tools_to_openai(tools: Sequence[Tool]) -> list[Mapping[str, object]]:
    """Return tool definitions in OpenAI's form."""
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


def response_format(schema: Mapping[str, object]) -> Mapping[str, object]:
    """Return a JSON Schema as the option `response_format` of OpenAI and litellm."""
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": dict(schema)}}


def content_text(content: object) -> str:
    """Return the text of a message's content, which is text or a list of parts."""
    return content if isinstance(content, str) else "\n".join(_part_texts(content))


def _part_texts(content: object) -> Iterator[str]:
    for part in content if isinstance(content, list | tuple) else ():
        if isinstance(part, Mapping):
            yield str(part["text"]) if "text" in part else f"[{part.get('type', 'something')}]"


def _as_text(arguments: str | dict[str, JsonValue]) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def usage_from(raw: Mapping[str, object]) -> Usage:
    """Read counts in OpenAI's, Anthropic's or our own form; a missing or invalid count is 0.

    OpenAI's `prompt_tokens` includes tokens from the cache, Anthropic's `input_tokens` does
    not. `Usage.input` never does.
    """
    if "prompt_tokens" in raw:
        return _from_openai(raw)
    if "input_tokens" in raw:
        return Usage(
            input=_count(raw, "input_tokens"),
            output=_count(raw, "output_tokens"),
            cache_read=_count(raw, "cache_read_input_tokens"),
            cache_write=_count(raw, "cache_creation_input_tokens"),
        )
    cost = raw.get("cost_usd")
    return Usage(
        input=_count(raw, "input"),
        output=_count(raw, "output"),
        cache_read=_count(raw, "cache_read"),
        cache_write=_count(raw, "cache_write"),
        cost_usd=float(cost) if isinstance(cost, int | float) else 0.0,
    )


def _from_openai(raw: Mapping[str, object]) -> Usage:
    details = as_mapping(raw.get("prompt_tokens_details"))
    read = _count(details, "cached_tokens") or _count(raw, "cache_read_input_tokens")
    write = (
        _count(details, "cache_creation_tokens")
        or _count(details, "cache_write_tokens")
        or _count(raw, "cache_creation_input_tokens")
    )
    return Usage(
        input=max(0, _count(raw, "prompt_tokens") - read - write),
        output=_count(raw, "completion_tokens"),
        cache_read=read,
        cache_write=write,
    )


def _count(raw: Mapping[str, object], name: str) -> int:
    value = raw.get(name)
    return max(0, value) if isinstance(value, int) else 0


def image_part(url: object) -> Mapping[str, object]:
    """Return an image whose bytes are in the URL itself, or else a text in its place.

    Any other URL would be fetched by this process or by the provider, past the network rules
    of the sandbox.
    """
    head = _INLINE_DATA.match(url) if isinstance(url, str) else None
    # A second colon may begin an address: some providers look for one anywhere in the text.
    if head is None or ":" in str(url)[head.end() :]:
        return unsupported_part("image")
    return {"type": "image_url", "image_url": {"url": url}}


def unsupported_part(kind: object) -> Mapping[str, object]:
    """Return the text that a model gets in place of content that it cannot be given."""
    return {"type": "text", "text": f"[{kind} that this model cannot be shown]"}
