"""The server side of OpenAI's Chat Completions."""

import time
from collections.abc import Iterable, Iterator, Mapping
from secrets import token_hex

from pydantic import BaseModel, Field, JsonValue

from contracts.chat import Usage
from contracts.json import as_mapping
from providers.openai_messages import (
    call_to_openai,
    image_part,
    message_to_openai,
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
    collect,
    sse_event,
)

SSE_COMMENT = b": waiting\n\n"
"""A server-sent event that clients ignore; it keeps the connection open."""

_DONE = b"data: [DONE]\n\n"

_OPTIONS = (
    "max_tokens",
    "temperature",
    "top_p",
    "stop",
    "tool_choice",
    "reasoning_effort",
    "response_format",
)
_MESSAGE_FIELDS = ("role", "content", "name", "tool_calls", "tool_call_id", "thinking_blocks")
_FUNCTION_FIELDS = ("name", "description", "parameters")


class _Request(BaseModel, frozen=True, extra="allow"):
    messages: list[dict[str, JsonValue]] = Field(min_length=1)
    tools: list[dict[str, JsonValue]] | None = None
    stream: bool = False
    max_completion_tokens: int | None = None
    harness_timeout_s: float = 600.0
    """Sent by our own client only."""


def read_request(body: bytes) -> ModelRequest:
    """Read a request, without the fields that not every model takes.

    Raises:
        ValueError: the body is not such a request.
    """
    return _model_request(_Request.model_validate_json(body))


def chat_request(raw: Json) -> ModelRequest:
    """Read a request that is parsed already; see `read_request`."""
    return _model_request(_Request.model_validate(raw))


def _model_request(request: _Request) -> ModelRequest:
    options: dict[str, JsonValue] = {**(request.model_extra or {})}
    options.setdefault("max_tokens", request.max_completion_tokens)
    tools = list(_functions(request.tools or ()))
    if not tools:
        options.pop("tool_choice", None)
    return ModelRequest(
        messages=[_message(message) for message in request.messages],
        tools=tools,
        options={name: options[name] for name in _OPTIONS if options.get(name) is not None},
        stream=request.stream,
        timeout_s=STREAM_TIMEOUT_S if request.stream else request.harness_timeout_s,
    )


def response_body(parts: Iterator[AnswerPart], model: str) -> Json:
    """Return a complete answer as one JSON object."""
    message, end = collect(parts)
    choice = {"index": 0, "message": message_to_openai(message), "finish_reason": end.stop_reason}
    head = _head(end.model or model, "chat.completion")
    return {**head, "choices": [choice], "usage": _usage(end.usage)}


def response_events(parts: Iterator[AnswerPart], model: str) -> Iterator[bytes]:
    """Yield an answer as server-sent events, one for each part."""
    head, calls = _head(model, "chat.completion.chunk"), 0
    yield _chunk(head, {"role": "assistant", "content": ""})
    for part in parts:
        match part:
            case TextPart(text):
                yield _chunk(head, {"content": text})
            case ThinkingPart(text) if text:
                yield _chunk(head, {"reasoning_content": text})
            case ToolCallPart(call):
                yield _chunk(head, {"tool_calls": [{"index": calls, **call_to_openai(call)}]})
                calls += 1
            case WaitPart():
                yield SSE_COMMENT
            case EndPart(stop_reason, usage):
                yield _chunk(head, {}, finish_reason=stop_reason)
                yield sse_event({**head, "choices": [], "usage": _usage(usage)})
    yield _DONE


def error_body(message: str, status: int) -> Json:
    """Return an error as one JSON object."""
    kinds = {401: "authentication_error", 429: "rate_limit_error", 500: "server_error"}
    kind = kinds.get(status, "invalid_request_error")
    return {"error": {"message": message, "type": kind, "param": None, "code": None}}


def error_event(message: str) -> bytes:
    """Return an error as an event after the answer has begun."""
    return sse_event(error_body(message, 500))


OPENAI = WireFormat(read_request, response_body, response_events, error_body, error_event)


def _chunk(head: Json, delta: Json, *, finish_reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return sse_event({**head, "choices": [choice]})


def _head(model: str, kind: str) -> Json:
    created = int(time.time())
    return {"id": f"chatcmpl-{token_hex(12)}", "created": created, "object": kind, "model": model}


def _usage(usage: Usage) -> Json:
    details = {"cached_tokens": usage.cache_read, "cache_creation_tokens": usage.cache_write}
    return {
        "prompt_tokens": usage.input + usage.cache_read + usage.cache_write,
        "completion_tokens": usage.output,
        "total_tokens": usage.total,
        "prompt_tokens_details": details,
        "cost_usd": usage.cost_usd,
    }


def _functions(tools: Iterable[Json]) -> Iterator[Json]:
    """Yield the tools that the agent runs. Others would run at the provider, past the guard."""
    for tool in tools:
        function = tool.get("function")
        if tool.get("type") == "function" and isinstance(function, Mapping) and "name" in function:
            fields = {key: function[key] for key in _FUNCTION_FIELDS if key in function}
            yield {"type": "function", "function": fields}


def _message(raw: Json) -> Json:
    message = {key: value for key, value in raw.items() if key in _MESSAGE_FIELDS}
    content = raw.get("content")
    if not isinstance(content, str):
        message["content"] = [_part(p) for p in content] if isinstance(content, list) else None
    # "developer" is OpenAI's newer word for the system prompt, unknown to other providers.
    return {**message, "role": "system"} if raw.get("role") == "developer" else message


def _part(raw: object) -> Json:
    part = as_mapping(raw)
    match part.get("type"):
        case "text":
            return {"type": "text", "text": str(part.get("text", ""))}
        case "image_url":
            url = part.get("image_url")
            return image_part(url.get("url") if isinstance(url, Mapping) else url)
        case kind:
            return unsupported_part(kind)
