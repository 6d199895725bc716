"""The server side of OpenAI's Responses, for agents that send the whole conversation each time.

litellm turns a request into one of Chat Completions. The model's thinking is not passed on.
"""

import re
import time
from collections.abc import Iterator
from secrets import token_hex
from types import MappingProxyType
from typing import cast

from pydantic import BaseModel, JsonValue

from contracts.chat import Usage
from contracts.json import as_mapping
from contracts.tool import ToolCall
from providers.models import litellm
from providers.protocol import (
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
from providers.wire_openai import SSE_COMMENT, chat_request, error_body

_OPTIONS = ("instructions", "max_output_tokens", "temperature", "text", "tool_choice", "tools")
"""What is taken over from a request. Reasoning is left to the model's default: its traces, which
some providers want back, are not passed on."""

_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}
_GROUPED = re.compile(r"(?P<namespace>mcp__[a-z]+)__(?P<tool>.+)", re.DOTALL)
_WAITING: Json = MappingProxyType({})
"""Stands for a sign of life in a sequence of events."""


class _Request(BaseModel, frozen=True, extra="allow"):
    input: str | list[dict[str, JsonValue]]
    stream: bool = False


def read_request(body: bytes) -> ModelRequest:
    """Read a request, without the fields that not every model takes.

    Raises:
        ValueError: the body is not such a request.
    """
    request = _Request.model_validate_json(body)
    extra = request.model_extra or {}
    options = {name: extra[name] for name in _OPTIONS if extra.get(name) is not None}
    try:
        return chat_request(_as_chat(request, options))
    except (LookupError, TypeError, AttributeError) as error:  # litellm expects the right types
        raise ValueError(f"not a request of the Responses API: {error}") from error


def _as_chat(request: _Request, options: Json) -> Json:
    litellm()  # sets what litellm reads when it is imported
    from litellm.responses.litellm_completion_transformation import transformation

    chat = transformation.LiteLLMCompletionResponsesConfig
    return cast(
        Json,  # litellm ships no usable types
        chat.transform_responses_api_request_to_chat_completion_request(
            model="openai/model",
            input=request.input,
            responses_api_request=options,
            stream=request.stream,
        ),
    )


def response_body(parts: Iterator[AnswerPart], model: str) -> Json:
    """Return a complete answer as one JSON object."""
    *_, last = _events(parts, model)
    return as_mapping(last["response"])


def response_events(parts: Iterator[AnswerPart], model: str) -> Iterator[bytes]:
    """Yield an answer as server-sent events."""
    for number, event in enumerate(_events(parts, model)):
        if event is _WAITING:
            yield SSE_COMMENT
        else:
            yield sse_event({**event, "sequence_number": number}, name=str(event["type"]))


def error_event(message: str) -> bytes:
    """Return an error as an event after the answer has begun."""
    error = {"code": "server_error", "message": message}
    failed = {"id": _new_id("resp"), "object": "response", "status": "failed", "error": error}
    return sse_event({"type": "response.failed", "response": failed}, name="response.failed")


RESPONSES = WireFormat(read_request, response_body, response_events, error_body, error_event)


def _events(parts: Iterator[AnswerPart], model: str) -> Iterator[Json]:
    """Yield the events of one answer; the last one contains all of it."""
    response: Json = {
        "id": _new_id("resp"),
        "object": "response",
        "created_at": int(time.time()),
        "model": model,
        "status": "in_progress",
        "output": [],
    }
    yield {"type": "response.created", "response": response}
    output: list[Json] = []
    message = _Message(0)
    for part in parts:
        match part:
            case TextPart(text):
                yield from message.add(text)
            case ToolCallPart(call):
                yield from message.end(output)
                item = _call_item(call)
                yield from _item_events(item, len(output))
                output.append(item)
                message = _Message(len(output))
            case WaitPart():
                yield _WAITING
            case ThinkingPart():
                pass
            case EndPart(stop_reason, usage):
                yield from message.end(output)
                yield _last_event(
                    {**response, "output": output, "usage": _usage(usage)}, stop_reason
                )


class _Message:
    """A message item whose text arrives in pieces."""

    def __init__(self, place: int) -> None:
        self._text: list[str] = []
        self._place: Json = {"output_index": place}
        self._id = _new_id("msg")

    def add(self, text: str) -> Iterator[Json]:
        if not self._text:
            item = self._item("in_progress", [])
            yield {"type": "response.output_item.added", **self._place, "item": item}
            yield self._event("content_part.added", part=_output_text(""))
        self._text.append(text)
        yield self._event("output_text.delta", delta=text)

    def end(self, output: list[Json]) -> Iterator[Json]:
        """Yield the last events of the message, if there is one, and append it to the output."""
        if not self._text:
            return
        part = _output_text("".join(self._text))
        item = self._item("completed", [part])
        yield self._event("output_text.done", text=part["text"])
        yield self._event("content_part.done", part=part)
        yield {"type": "response.output_item.done", **self._place, "item": item}
        output.append(item)

    def _event(self, name: str, **more: object) -> Json:
        place = {"item_id": self._id, **self._place, "content_index": 0}
        return {"type": f"response.{name}", **place, **more}

    def _item(self, status: str, content: list[Json]) -> Json:
        head = {"id": self._id, "type": "message", "role": "assistant"}
        return {**head, "status": status, "content": content}


def _output_text(text: str) -> Json:
    return {"type": "output_text", "text": text, "annotations": []}


def _call_item(call: ToolCall) -> Json:
    """Return a tool call. codex groups the tools of an MCP server in a namespace, and litellm
    names them `namespace__tool`, such as `mcp__harness__tracker__get_issue`."""
    grouped = _GROUPED.fullmatch(call.name)
    return {
        "id": _new_id("fc"),
        "type": "function_call",
        "call_id": call.id,
        "name": grouped["tool"] if grouped else call.name,
        **({"namespace": grouped["namespace"]} if grouped else {}),
        "arguments": call.arguments,
        "status": "completed",
    }


def _item_events(item: Json, place: int) -> Iterator[Json]:
    begun = {**item, "arguments": "", "status": "in_progress"}
    yield {"type": "response.output_item.added", "output_index": place, "item": begun}
    arguments = {"item_id": item["id"], "output_index": place, "arguments": item["arguments"]}
    yield {"type": "response.function_call_arguments.done", **arguments}
    yield {"type": "response.output_item.done", "output_index": place, "item": item}


def _last_event(response: Json, stop_reason: str) -> Json:
    reason = _INCOMPLETE.get(stop_reason)
    if reason is None:
        return {"type": "response.completed", "response": {**response, "status": "completed"}}
    details = {"status": "incomplete", "incomplete_details": {"reason": reason}}
    return {"type": "response.incomplete", "response": {**response, **details}}


def _usage(usage: Usage) -> Json:
    return {
        "input_tokens": usage.input + usage.cache_read + usage.cache_write,
        "input_tokens_details": {"cached_tokens": usage.cache_read},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.total,
    }


def _new_id(kind: str) -> str:
    return f"{kind}_{token_hex(12)}"
