"""The OpenAI Chat Completions wire, as a server: requests in, answers and errors out."""

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from secrets import token_hex

from pydantic import BaseModel, Field, JsonValue

from contracts.chat import Message, Usage
from contracts.json import as_mapping
from providers.answer_parts import (
    AnswerPart,
    EndPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    WaitPart,
    collect,
)
from providers.model_request import STREAM_TIMEOUT_S, Json, ModelRequest
from providers.parts import image, not_shown
from providers.sse import SSE_COMMENT, sse_event
from providers.wire_openai import message_to_openai

SSE_DONE = b"data: [DONE]\n\n"

_PASSED_ON = (
    "max_tokens",
    "temperature",
    "top_p",
    "stop",
    "tool_choice",
    "reasoning_effort",
    "response_format",
)
_SAID = ("role", "content", "name", "tool_calls", "tool_call_id", "thinking_blocks")
_FUNCTION = ("name", "description", "parameters")


class _Request(BaseModel, frozen=True, extra="allow"):
    messages: list[dict[str, JsonValue]] = Field(min_length=1)
    tools: list[dict[str, JsonValue]] | None = None
    stream: bool = False
    max_completion_tokens: int | None = None
    harness_timeout_s: float = 600.0
    """Our own clients say how long they would wait."""


def read_request(body: bytes) -> ModelRequest:
    """Read a request; fields that not every model takes are left out.

    Raises:
        ValueError: it is no such request. pydantic's ValidationError is one.
    """
    request = _Request.model_validate_json(body)
    given: dict[str, JsonValue] = {**(request.model_extra or {})}
    given.setdefault("max_tokens", request.max_completion_tokens)
    tools = list(_functions(request.tools or ()))
    if not tools:
        given.pop("tool_choice", None)
    return ModelRequest(
        messages=[_message(message) for message in request.messages],
        tools=tools,
        options={name: given[name] for name in _PASSED_ON if given.get(name) is not None},
        stream=request.stream,
        timeout_s=STREAM_TIMEOUT_S if request.stream else request.harness_timeout_s,
    )


def response_body(pieces: Iterator[AnswerPart], model: str) -> Json:
    """A whole answer as one JSON object."""
    message, end = collect(pieces)
    choice = {"index": 0, "message": message_to_openai(message), "finish_reason": end.stop_reason}
    head = _head(model, "chat.completion")
    return {**head, "choices": [choice], "usage": _usage(end.usage)}


def response_events(pieces: Iterator[AnswerPart], model: str) -> Iterator[bytes]:
    """The same as server-sent events, each as soon as its piece is there."""
    head, calls = _head(model, "chat.completion.chunk"), 0
    yield _chunk(head, {"role": "assistant", "content": ""})
    for piece in pieces:
        match piece:
            case TextPart(text):
                yield _chunk(head, {"content": text})
            case ThinkingPart(text) if text:
                yield _chunk(head, {"reasoning_content": text})
            case ToolCallPart(call):
                said = message_to_openai(Message(role="assistant", tool_calls=(call,)))[
                    "tool_calls"
                ]
                whole = said[0] if isinstance(said, list) else {}
                yield _chunk(head, {"tool_calls": [{"index": calls, **whole}]})
                calls += 1
            case WaitPart():
                yield SSE_COMMENT
            case EndPart(stop_reason, usage):
                yield _chunk(head, {}, finish_reason=stop_reason)
                yield sse_event({**head, "choices": [], "usage": _usage(usage)})
    yield SSE_DONE


def error_body(message: str, status: int) -> Json:
    """An error as this wire tells it."""
    kind = {401: "authentication_error", 429: "rate_limit_error", 500: "server_error"}
    return {
        "error": {
            "message": message,
            "type": kind.get(status, "invalid_request_error"),
            "param": None,
            "code": None,
        }
    }


def error_event(message: str) -> bytes:
    """An error after the answer has begun."""
    return sse_event(error_body(message, 500))


def _chunk(head: Json, delta: Json, *, finish_reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return sse_event({**head, "choices": [choice]})


def _head(model: str, kind: str) -> Json:
    made = {"id": f"chatcmpl-{token_hex(12)}", "created": int(time.time())}
    return {**made, "object": kind, "model": model}


def _usage(usage: Usage) -> Json:
    prompt = usage.input + usage.cache_read + usage.cache_write
    details = {
        "cached_tokens": usage.cache_read,
        "cache_creation_tokens": usage.cache_write,
    }
    return {
        "prompt_tokens": prompt,
        "completion_tokens": usage.output,
        "total_tokens": usage.total,
        "prompt_tokens_details": details,
        "cost_usd": asdict(usage)["cost_usd"],
    }


def _functions(tools: Iterable[Json]) -> Iterator[Json]:
    """The tools that the agent runs; others would run at the provider, where nobody guards."""
    for tool in tools:
        function = tool.get("function")
        if tool.get("type") == "function" and isinstance(function, Mapping) and "name" in function:
            known = {key: function[key] for key in _FUNCTION if key in function}
            yield {"type": "function", "function": known}


def _message(raw: Json) -> Json:
    """A message that every provider knows: "developer" is what one calls a system prompt."""
    message = {key: value for key, value in raw.items() if key in _SAID}
    content = raw.get("content")
    if not isinstance(content, str):
        message["content"] = [_part(p) for p in content] if isinstance(content, list) else None
    return {**message, "role": "system"} if raw.get("role") == "developer" else message


def _part(raw: object) -> Json:
    part = as_mapping(raw)
    match part.get("type"):
        case "text":
            return {"type": "text", "text": str(part.get("text", ""))}
        case "image_url":
            named = part.get("image_url")
            return image(named.get("url") if isinstance(named, Mapping) else named)
        case kind:
            return not_shown(kind)
