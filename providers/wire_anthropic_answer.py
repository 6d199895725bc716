"""The Anthropic Messages wire, as a server: answers and errors out."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from itertools import count
from secrets import token_hex

from contracts.chat import Usage
from providers.answer_parts import (
    AnswerPart,
    EndPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    WaitPart,
)
from providers.model_request import Json
from providers.sse import sse_event

_STOP_REASONS = {"tool_calls": "tool_use", "length": "max_tokens", "content_filter": "refusal"}


def response_body(pieces: Iterator[AnswerPart], model: str) -> Json:
    """A whole answer as one JSON object."""
    blocks: list[dict[str, object]] = []
    end = EndPart("stop", Usage())
    for piece in pieces:
        match piece:
            case EndPart():
                end = piece
            case TextPart(text) if blocks and blocks[-1]["type"] == "text":
                blocks[-1]["text"] = f"{blocks[-1]['text']}{text}"
            case TextPart(text):
                blocks.append({"type": "text", "text": text})
            case ToolCallPart(call):
                head = {"type": "tool_use", "id": call.id, "name": call.name}
                blocks.append({**head, "input": _input(call.arguments)})
            case ThinkingPart():
                _think(blocks, piece)
            case WaitPart():
                pass
    stop = {"stop_reason": _stop_reason(end), "stop_sequence": None}
    return {**_head(model), "content": blocks, **stop, "usage": _usage(end.usage)}


def _think(blocks: list[dict[str, object]], piece: ThinkingPart) -> None:
    """Add a bit of thought: to the last block, if that is a thought not yet signed."""
    if piece.redacted:
        blocks.append(dict(_opening(piece)))
        return
    if not blocks or blocks[-1].get("signature") != "":
        blocks.append(dict(_opening(piece)))
    blocks[-1]["thinking"] = f"{blocks[-1]['thinking']}{piece.text}"
    blocks[-1]["signature"] = piece.signature


def response_events(pieces: Iterator[AnswerPart], model: str) -> Iterator[bytes]:
    """The same as server-sent events, each as soon as its piece is there."""
    nothing: Json = {"content": [], "stop_reason": None, "stop_sequence": None}
    message = {**_head(model), **nothing, "usage": _usage(Usage())}
    yield _event("message_start", message=message)
    numbers, number, open_kind = count(), -1, ""
    for piece in pieces:
        if isinstance(piece, WaitPart):
            yield _event("ping")
            continue
        kind = _kind(piece)
        if open_kind and kind != open_kind:
            yield _event("content_block_stop", index=number)
            open_kind = ""
        if isinstance(piece, EndPart):
            end = {"stop_reason": _stop_reason(piece), "stop_sequence": None}
            yield _event("message_delta", delta=end, usage=_usage(piece.usage))
            continue
        if not open_kind:
            number, open_kind = next(numbers), kind
            yield _event("content_block_start", index=number, content_block=_opening(piece))
        if (delta := _delta(piece)) is not None:
            yield _event("content_block_delta", index=number, delta=delta)
        if isinstance(piece, ThinkingPart) and piece.ends_block:
            yield _event("content_block_stop", index=number)
            open_kind = ""
    yield _event("message_stop")


def error_body(message: str, status: int) -> Json:
    """An error as this wire tells it; what cannot be mended is said to be a bad request."""
    kind = {401: "authentication_error", 404: "not_found_error", 413: "request_too_large"}
    kinds = {**kind, 429: "rate_limit_error", 500: "api_error", 502: "api_error"}
    error = {"type": kinds.get(status, "invalid_request_error"), "message": message}
    return {"type": "error", "error": error}


def error_event(message: str) -> bytes:
    """An error after the answer has begun."""
    return sse_event(error_body(message, 500), name="error")


def _event(name: str, **fields: object) -> bytes:
    return sse_event({"type": name, **fields}, name=name)


def _kind(piece: TextPart | ThinkingPart | ToolCallPart | EndPart) -> str:
    """What may share a block has the same kind; each call has one of its own."""
    match piece:
        case TextPart():
            return "text"
        case ThinkingPart(redacted=data):
            return "redacted" if data else "thinking"
        case ToolCallPart(call):
            return f"call {call.id}"
        case EndPart():
            return "end"


def _opening(piece: TextPart | ThinkingPart | ToolCallPart) -> Json:
    match piece:
        case TextPart():
            return {"type": "text", "text": ""}
        case ThinkingPart(redacted=data) if data:
            return {"type": "redacted_thinking", "data": data}
        case ThinkingPart():
            return {"type": "thinking", "thinking": "", "signature": ""}
        case ToolCallPart(call):
            return {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}


def _delta(piece: TextPart | ThinkingPart | ToolCallPart) -> Json | None:
    match piece:
        case TextPart(text):
            return {"type": "text_delta", "text": text}
        case ThinkingPart(redacted=data) if data:
            return None
        case ThinkingPart(signature=signature) if signature:
            return {"type": "signature_delta", "signature": signature}
        case ThinkingPart(text):
            return {"type": "thinking_delta", "thinking": text}
        case ToolCallPart(call):
            whole = json.dumps(_input(call.arguments))
            return {"type": "input_json_delta", "partial_json": whole}


def _input(arguments: str) -> Json:
    """The arguments as an object; text that is none goes under a name that no tool takes."""
    try:
        found = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        found = None
    return found if isinstance(found, dict) else {"malformed": arguments}


def _head(model: str) -> Json:
    return {"id": f"msg_{token_hex(12)}", "type": "message", "role": "assistant", "model": model}


def _stop_reason(end: EndPart) -> str:
    return _STOP_REASONS.get(end.stop_reason, "end_turn")


def _usage(usage: Usage) -> Json:
    counts = asdict(usage)
    return {
        "input_tokens": counts["input"],
        "output_tokens": counts["output"],
        "cache_read_input_tokens": counts["cache_read"],
        "cache_creation_input_tokens": counts["cache_write"],
    }
