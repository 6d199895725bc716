"""The server side of Google's generateContent.

litellm turns tools and options into those of Chat Completions, but not messages: version 1.106.2
gives two calls of one tool the same id, puts the text beside tool results before them, and takes
thoughts for text. The model's thinking is shown to the agent, and not passed back to the model.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from secrets import token_hex
from typing import Literal, cast

from pydantic import BaseModel, ConfigDict, Field, JsonValue
from pydantic.alias_generators import to_camel

from contracts.chat import Usage
from contracts.json import as_mapping, as_mappings, text_at
from providers.models import litellm
from providers.openai_messages import arguments_object, image_part, unsupported_part
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
from providers.wire_openai import chat_request

_STOP_REASONS = {"length": "MAX_TOKENS", "content_filter": "SAFETY"}
_ERROR_STATUS = {
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    502: "UNAVAILABLE",
}
_OPTIONS = (
    "maxOutputTokens",
    "temperature",
    "stopSequences",
    "responseMimeType",
    "responseJsonSchema",
    "responseSchema",
)
"""What is taken over from `generationConfig`. Other options are fitted to Google's own models, and
some models refuse `topP` beside a temperature."""


class _Content(BaseModel, frozen=True, extra="ignore"):
    role: Literal["user", "model", "function"] = "user"
    parts: list[dict[str, JsonValue]] = Field(default_factory=list)


class _Request(BaseModel, frozen=True, extra="ignore"):
    model_config = ConfigDict(alias_generator=to_camel)

    contents: list[_Content] = Field(min_length=1)
    system_instruction: _Content = _Content()
    tools: list[dict[str, JsonValue]] = Field(default_factory=list)
    tool_config: dict[str, JsonValue] | None = None
    generation_config: dict[str, JsonValue] = Field(default_factory=dict)


def _read_request(body: bytes, *, stream: bool) -> ModelRequest:
    """Read a request. Whether its answer is streamed is said by the URL.

    Raises:
        ValueError: the body is not such a request.
    """
    request = _Request.model_validate_json(body)
    try:
        options = _options(request)
    except (LookupError, TypeError, AttributeError) as error:  # litellm expects the right types
        raise ValueError(f"not a request of generateContent: {error}") from error
    return chat_request({**options, "messages": _messages(request), "stream": stream})


def _options(request: _Request) -> Json:
    """Return tools and options as Chat Completions has them."""
    litellm()  # sets what litellm reads when it is imported
    from litellm.google_genai.adapters.transformation import GoogleGenAIAdapter

    config = request.generation_config
    chat = GoogleGenAIAdapter().translate_generate_content_to_completion(
        model="openai/model",
        contents=[],
        config={name: config[name] for name in _OPTIONS if name in config},
        tools=request.tools,
        toolConfig=request.tool_config,
    )
    return cast(Json, chat)  # litellm ships no usable types


def _messages(request: _Request) -> list[Json]:
    system = "\n".join(text_at(part, "text") for part in request.system_instruction.parts)
    messages: list[Json] = [{"role": "system", "content": system}] if system else []
    ids = _CallIds()
    for content in request.contents:
        if content.role == "model":
            messages.append(_assistant_message(content, ids))
        else:
            messages += _user_messages(content, ids)
    return messages


class _CallIds:
    """The ids of calls and results. Those without one belong together in their order."""

    def __init__(self) -> None:
        self._seen = Counter[tuple[str, str]]()

    def of(self, kind: str, part: Mapping[str, object]) -> str:
        name = text_at(part, "name")
        self._seen[kind, name] += 1
        return text_at(part, "id") or f"{name}-{self._seen[kind, name]}"


def _assistant_message(content: _Content, ids: _CallIds) -> Json:
    parts = [part for part in content.parts if not part.get("thought")]
    text = "".join(text_at(part, "text") for part in parts)
    message: dict[str, object] = {"role": "assistant", "content": text or None}
    calls = [
        {
            "id": ids.of("call", call),
            "type": "function",
            "function": {"name": call.get("name"), "arguments": json.dumps(call.get("args") or {})},
        }
        for part in parts
        if (call := as_mapping(part.get("functionCall")))
    ]
    return {**message, "tool_calls": calls} if calls else message


def _user_messages(content: _Content, ids: _CallIds) -> list[Json]:
    """Return OpenAI's messages: each tool result is a message of its own and holds text only, so
    images of results follow in the user's message."""
    results = [as_mapping(part["functionResponse"]) for part in content.parts if _is_result(part)]
    images = [image for result in results for image in as_mappings(result.get("parts"))]
    others = [part for part in content.parts if not _is_result(part)]
    messages: list[Json] = [
        {
            "role": "tool",
            "tool_call_id": ids.of("result", result),
            "content": _result_text(as_mapping(result.get("response"))) or "(no output)",
        }
        for result in results
    ]
    parts = [_part(part) for part in (*others, *images)]
    return [*messages, {"role": "user", "content": parts}] if parts else messages


def _is_result(part: Mapping[str, object]) -> bool:
    return "functionResponse" in part


def _result_text(response: Mapping[str, object]) -> str:
    """Return the text of a result: Google's keys for it are `output` and `error`."""
    if isinstance(output := response.get("output"), str):
        return output
    if isinstance(error := response.get("error"), str):
        return f"error: {error}"
    return json.dumps(response) if response else ""


def _part(part: Mapping[str, object]) -> Json:
    if isinstance(text := part.get("text"), str):
        return {"type": "text", "text": text}
    data = as_mapping(part.get("inlineData"))
    kind = text_at(data, "mimeType")
    if kind.startswith("image/"):
        return image_part(f"data:{kind};base64,{text_at(data, 'data')}")
    return unsupported_part(kind or next(iter(part), "something"))


def _response_body(parts: Iterator[AnswerPart], model: str) -> Json:
    """Return a complete answer as one JSON object."""
    said: list[dict[str, object]] = []
    end = EndPart("stop", Usage())
    for part in parts:
        match part:
            case EndPart():
                end = part
            case TextPart(text) if said and said[-1].keys() == {"text"}:
                said[-1]["text"] = f"{said[-1]['text']}{text}"
            case _:
                said += _answer_parts(part)
    return {**_head(model), **_candidate(said, _stop_reason(end)), **_usage(end.usage)}


def _response_events(parts: Iterator[AnswerPart], model: str) -> Iterator[bytes]:
    """Yield an answer as server-sent events. Google's client takes no comments between them."""
    head = _head(model)
    for part in parts:
        said = _answer_parts(part)
        if isinstance(part, EndPart):
            last = _candidate([{"text": ""}], _stop_reason(part))
            yield sse_event({**head, **last, **_usage(part.usage)})
        elif said:
            yield sse_event({**head, **_candidate(said)})
        elif isinstance(part, WaitPart):
            yield sse_event(head)


def _answer_parts(part: AnswerPart) -> list[dict[str, object]]:
    match part:
        case TextPart(text):
            return [{"text": text}]
        case ThinkingPart(text) if text:
            return [{"text": text, "thought": True}]
        case ToolCallPart(call):
            arguments = arguments_object(call.arguments)
            return [{"functionCall": {"id": call.id, "name": call.name, "args": arguments}}]
        case ThinkingPart() | EndPart() | WaitPart():
            return []


def _head(model: str) -> Json:
    return {"responseId": token_hex(12), "modelVersion": model}


def _candidate(parts: list[dict[str, object]], stop_reason: str | None = None) -> Json:
    candidate: Json = {"index": 0, "content": {"role": "model", "parts": parts}}
    return {
        "candidates": [{**candidate, "finishReason": stop_reason} if stop_reason else candidate]
    }


def _stop_reason(end: EndPart) -> str:
    return _STOP_REASONS.get(end.stop_reason, "STOP")


def _usage(usage: Usage) -> Json:
    counts = {
        "promptTokenCount": usage.input + usage.cache_read + usage.cache_write,
        "cachedContentTokenCount": usage.cache_read,
        "candidatesTokenCount": usage.output,
        "totalTokenCount": usage.total,
    }
    return {"usageMetadata": counts}


def _error_body(message: str, status: int) -> Json:
    """Return an error as one JSON object."""
    kind = _ERROR_STATUS.get(status, "INVALID_ARGUMENT")
    return {"error": {"code": status, "message": message, "status": kind}}


def _error_event(message: str) -> bytes:
    """Return an error after the answer has begun: for Google's client an object by itself."""
    return json.dumps(_error_body(message, 500)).encode() + b"\n\n"


GOOGLE = WireFormat(
    partial(_read_request, stream=False),
    _response_body,
    _response_events,
    _error_body,
    _error_event,
)
GOOGLE_STREAM = GOOGLE._replace(read_request=partial(_read_request, stream=True))
