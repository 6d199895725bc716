"""The server side of Anthropic's Messages API.

litellm has such a translation too (`llms/anthropic/pass_through/adapters`). It is not used:
version 1.106.2 loses redacted thinking in streams and `is_error` of tool results, passes on
images by URL and tools that run at the provider, and takes seconds to import, also for
scripted models.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from secrets import token_hex
from typing import Literal

from pydantic import BaseModel, Field, JsonValue

from contracts.chat import Usage
from contracts.json import as_mappings
from providers.openai_messages import (
    arguments_object,
    content_text,
    image_part,
    unsupported_part,
)
from providers.protocol import (
    STREAM_TIMEOUT_S,
    AnswerPart,
    EndPart,
    Json,
    ModelRequest,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    WaitPart,
    WireFormat,
    sse_event,
)

_STOP_REASONS = {"tool_calls": "tool_use", "length": "max_tokens", "content_filter": "refusal"}
_ERROR_TYPES = {
    401: "authentication_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    502: "api_error",
}


class _Turn(BaseModel, frozen=True, extra="ignore"):
    role: Literal["user", "assistant", "system"]
    content: str | list[dict[str, JsonValue]]


class _Tool(BaseModel, frozen=True, extra="ignore"):
    name: str
    description: str = ""
    input_schema: dict[str, JsonValue] | None = None
    """None for tools that only the provider itself can run."""


class _Request(BaseModel, frozen=True, extra="ignore"):
    messages: list[_Turn] = Field(min_length=1)
    system: str | list[dict[str, JsonValue]] = ""
    tools: list[_Tool] = Field(default_factory=list)
    tool_choice: dict[str, JsonValue] | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop_sequences: list[str] | None = None
    thinking: dict[str, JsonValue] | None = None
    stream: bool = False


def read_request(body: bytes) -> ModelRequest:
    """Read a request, without unknown fields and without tools that run at the provider.

    Raises:
        ValueError: the body is not such a request.
    """
    request = _Request.model_validate_json(body)
    system = content_text(request.system)
    messages: list[Json] = [{"role": "system", "content": system}] if system else []
    for turn in request.messages:
        messages += _messages(turn)
    options = {
        "max_tokens": request.max_tokens,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "stop": request.stop_sequences,
        "thinking": request.thinking,
        "tool_choice": _tool_choice(request.tool_choice or {}) if request.tools else None,
    }
    return ModelRequest(
        messages=messages,
        tools=[_tool(tool) for tool in request.tools if tool.input_schema is not None],
        options={name: value for name, value in options.items() if value is not None},
        stream=request.stream,
        timeout_s=STREAM_TIMEOUT_S if request.stream else 600.0,
    )


def _tool_choice(choice: Mapping[str, JsonValue]) -> object:
    match choice.get("type"):
        case "any":
            return "required"
        case "none":
            return "none"
        case "tool":
            return {"type": "function", "function": {"name": choice.get("name")}}
        case _:
            return None


def _tool(tool: _Tool) -> Json:
    function = {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.input_schema,
    }
    return {"type": "function", "function": function}


def _messages(turn: _Turn) -> Sequence[Json]:
    """Return OpenAI's messages of a turn: each tool result is a message of its own."""
    if isinstance(turn.content, str):
        return [{"role": turn.role, "content": turn.content}]
    if turn.role == "assistant":
        return [_assistant_message(turn.content)]
    results = [block for block in turn.content if block.get("type") == "tool_result"]
    others = [block for block in turn.content if block.get("type") != "tool_result"]
    # OpenAI's tool messages hold text only, so images of results follow in the user's message.
    images = [
        block
        for result in results
        for block in as_mappings(result.get("content"))
        if block.get("type") == "image"
    ]
    parts = [part for block in (*others, *images) if (part := _part(block))]
    messages = [_result_message(result) for result in results]
    return [*messages, {"role": turn.role, "content": parts}] if parts else messages


def _assistant_message(blocks: Sequence[Mapping[str, JsonValue]]) -> Json:
    calls = [_call(block) for block in blocks if block.get("type") == "tool_use"]
    thinking = [dict(b) for b in blocks if b.get("type") in ("thinking", "redacted_thinking")]
    text = "".join(str(b.get("text", "")) for b in blocks if b.get("type") == "text")
    message: dict[str, object] = {"role": "assistant", "content": text or None}
    if calls:
        message["tool_calls"] = calls
    if thinking:
        message["thinking_blocks"] = thinking
    return message


def _call(block: Mapping[str, JsonValue]) -> Json:
    function = {"name": block.get("name"), "arguments": json.dumps(block.get("input") or {})}
    return {"id": block.get("id"), "type": "function", "function": function}


def _result_message(block: Mapping[str, JsonValue]) -> Json:
    prefix = "error: " if block.get("is_error") else ""
    return {
        "role": "tool",
        "tool_call_id": block.get("tool_use_id"),
        "content": prefix + content_text(block.get("content")) or "(no output)",
    }


def _part(block: Mapping[str, object]) -> Json | None:
    source = block.get("source")
    if block.get("type") == "text":
        return {"type": "text", "text": block.get("text", "")} if block.get("text") else None
    if block.get("type") == "image" and isinstance(source, Mapping):
        return image_part(f"data:{source.get('media_type')};base64,{source.get('data')}")
    return unsupported_part(block.get("type"))


def response_body(parts: Iterator[AnswerPart], model: str) -> Json:
    """Return a complete answer as one JSON object."""
    blocks: list[dict[str, object]] = []
    end = EndPart("stop", Usage())
    for part in parts:
        match part:
            case EndPart():
                end = part
            case TextPart(text) if blocks and blocks[-1]["type"] == "text":
                blocks[-1]["text"] = f"{blocks[-1]['text']}{text}"
            case TextPart(text):
                blocks.append({"type": "text", "text": text})
            case ToolCallPart(call):
                blocks.append({**_block_start(part), "input": arguments_object(call.arguments)})
            case ThinkingPart():
                _add_thinking(blocks, part)
            case WaitPart():
                pass
    stop = {"stop_reason": _stop_reason(end), "stop_sequence": None}
    return {**_head(model), "content": blocks, **stop, "usage": _usage(end.usage)}


def _add_thinking(blocks: list[dict[str, object]], part: ThinkingPart) -> None:
    """Add to the last block if it is thinking without a signature, else begin a block."""
    if part.redacted or not blocks or blocks[-1].get("signature") != "":
        blocks.append(dict(_block_start(part)))
    if not part.redacted:
        blocks[-1]["thinking"] = f"{blocks[-1]['thinking']}{part.text}"
        blocks[-1]["signature"] = part.signature


def response_events(parts: Iterator[AnswerPart], model: str) -> Iterator[bytes]:
    """Yield an answer as server-sent events, as soon as each part arrives."""
    empty: Json = {"content": [], "stop_reason": None, "stop_sequence": None}
    yield _event("message_start", message={**_head(model), **empty, "usage": _usage(Usage())})
    numbers, number, open_block = count(), -1, ""
    for part in parts:
        if isinstance(part, WaitPart):
            yield _event("ping")
            continue
        block = _block_key(part)
        if open_block and block != open_block:
            yield _event("content_block_stop", index=number)
            open_block = ""
        if isinstance(part, EndPart):
            stop = {"stop_reason": _stop_reason(part), "stop_sequence": None}
            yield _event("message_delta", delta=stop, usage=_usage(part.usage))
            continue
        if not open_block:
            number, open_block = next(numbers), block
            yield _event("content_block_start", index=number, content_block=_block_start(part))
        if (delta := _delta(part)) is not None:
            yield _event("content_block_delta", index=number, delta=delta)
        if isinstance(part, ThinkingPart) and part.ends_block:
            yield _event("content_block_stop", index=number)
            open_block = ""
    yield _event("message_stop")


def error_body(message: str, status: int) -> Json:
    """Return an error as one JSON object."""
    error = {"type": _ERROR_TYPES.get(status, "invalid_request_error"), "message": message}
    return {"type": "error", "error": error}


def error_event(message: str) -> bytes:
    """Return an error as an event after the answer has begun."""
    return sse_event(error_body(message, 500), name="error")


ANTHROPIC = WireFormat(
    read_request,
    response_body,
    response_events,
    error_body,
    error_event,
)


def _event(name: str, **fields: object) -> bytes:
    return sse_event({"type": name, **fields}, name=name)


def _block_key(part: TextPart | ThinkingPart | ToolCallPart | EndPart) -> str:
    """Return a key that is the same for neighbouring parts of one content block."""
    match part:
        case TextPart():
            return "text"
        case ThinkingPart(redacted=data):
            return "redacted" if data else "thinking"
        case ToolCallPart(call):
            return f"call {call.id}"
        case EndPart():
            return "end"


def _block_start(part: TextPart | ThinkingPart | ToolCallPart) -> Json:
    match part:
        case TextPart():
            return {"type": "text", "text": ""}
        case ThinkingPart(redacted=data) if data:
            return {"type": "redacted_thinking", "data": data}
        case ThinkingPart():
            return {"type": "thinking", "thinking": "", "signature": ""}
        case ToolCallPart(call):
            return {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}


def _delta(part: TextPart | ThinkingPart | ToolCallPart) -> Json | None:
    match part:
        case TextPart(text):
            return {"type": "text_delta", "text": text}
        case ThinkingPart(redacted=data) if data:
            return None
        case ThinkingPart(signature=signature) if signature:
            return {"type": "signature_delta", "signature": signature}
        case ThinkingPart(text):
            return {"type": "thinking_delta", "thinking": text}
        case ToolCallPart(call):
            arguments = json.dumps(arguments_object(call.arguments))
            return {"type": "input_json_delta", "partial_json": arguments}


def _head(model: str) -> Json:
    return {"id": f"msg_{token_hex(12)}", "type": "message", "role": "assistant", "model": model}


def _stop_reason(end: EndPart) -> str:
    return _STOP_REASONS.get(end.stop_reason, "end_turn")


def _usage(usage: Usage) -> Json:
    return {
        "input_tokens": usage.input,
        "output_tokens": usage.output,
        "cache_read_input_tokens": usage.cache_read,
        "cache_creation_input_tokens": usage.cache_write,
    }
