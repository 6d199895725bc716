"""The Anthropic Messages wire, as a server: requests in."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from pydantic import BaseModel, Field, JsonValue

from contracts.json import as_mappings
from providers.model_request import STREAM_TIMEOUT_S, Json, ModelRequest, content_text
from providers.parts import image, not_shown


class _Turn(BaseModel, frozen=True, extra="ignore"):
    role: Literal["user", "assistant", "system"]
    content: str | list[dict[str, JsonValue]]


class _Tool(BaseModel, frozen=True, extra="ignore"):
    name: str
    description: str = ""
    input_schema: dict[str, JsonValue] | None = None
    """None for the provider's own tools, which only the provider itself could run."""


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
    """Read a request; what no model here could use is left out, unknown fields too.

    Raises:
        ValueError: it is no such request. pydantic's ValidationError is one.
    """
    request = _Request.model_validate_json(body)
    system = content_text(request.system)
    messages: list[Json] = [{"role": "system", "content": system}] if system else []
    for turn in request.messages:
        messages += _messages(turn)
    return ModelRequest(
        messages=messages,
        tools=[_tool(tool) for tool in request.tools if tool.input_schema is not None],
        options=dict(_options(request)),
        stream=request.stream,
        timeout_s=STREAM_TIMEOUT_S if request.stream else 600.0,
    )


def _options(request: _Request) -> Iterator[tuple[str, object]]:
    options = {
        "max_tokens": request.max_tokens,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "stop": request.stop_sequences,
        "thinking": request.thinking,
        "tool_choice": _choice(request.tool_choice) if request.tools else None,
    }
    yield from ((name, value) for name, value in options.items() if value is not None)


def _choice(choice: Mapping[str, JsonValue] | None) -> object:
    match (choice or {}).get("type"):
        case "any":
            return "required"
        case "none":
            return "none"
        case "tool":
            return {"type": "function", "function": {"name": (choice or {}).get("name")}}
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
    if isinstance(turn.content, str):
        return [{"role": turn.role, "content": turn.content}]
    if turn.role == "assistant":
        return [_assistant(turn.content)]
    results = [block for block in turn.content if block.get("type") == "tool_result"]
    shown = [block for result in results for block in _images(result.get("content"))]
    others = [block for block in turn.content if block.get("type") != "tool_result"]
    parts = [part for block in (*others, *shown) if (part := _part(block))]
    told = [_result(result) for result in results]
    return [*told, {"role": turn.role, "content": parts}] if parts else told


def _assistant(blocks: Sequence[Mapping[str, JsonValue]]) -> Json:
    calls = [_call(block) for block in blocks if block.get("type") == "tool_use"]
    thoughts = [dict(b) for b in blocks if b.get("type") in ("thinking", "redacted_thinking")]
    said = "".join(str(b.get("text", "")) for b in blocks if b.get("type") == "text")
    message: dict[str, object] = {"role": "assistant", "content": said or None}
    if calls:
        message["tool_calls"] = calls
    if thoughts:
        message["thinking_blocks"] = thoughts
    return message


def _call(block: Mapping[str, JsonValue]) -> Json:
    function = {"name": block.get("name"), "arguments": json.dumps(block.get("input") or {})}
    return {"id": block.get("id"), "type": "function", "function": function}


def _result(block: Mapping[str, JsonValue]) -> Json:
    text = content_text(block.get("content"))
    failed = "error: " if block.get("is_error") else ""
    return {
        "role": "tool",
        "tool_call_id": block.get("tool_use_id"),
        "content": failed + text or "(no output)",
    }


def _images(content: object) -> Iterator[Mapping[str, object]]:
    return (block for block in as_mappings(content) if block.get("type") == "image")


def _part(block: Mapping[str, object]) -> Json | None:
    source = block.get("source")
    if block.get("type") == "text":
        return {"type": "text", "text": block.get("text", "")} if block.get("text") else None
    if block.get("type") == "image" and isinstance(source, Mapping):
        return image(f"data:{source.get('media_type')};base64,{source.get('data')}")
    return not_shown(block.get("type"))
