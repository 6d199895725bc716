"""The Anthropic Messages wire, as a server: answers and errors out."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from itertools import count
from secrets import token_hex

from contracts.chat import Usage
from providers.ask import Json
from providers.pieces import Call, End, Piece, Text, Thought, Wait
from providers.sse import event

_STOP_REASONS = {"tool_calls": "tool_use", "length": "max_tokens", "content_filter": "refusal"}


def body_from(pieces: Iterator[Piece], model: str) -> Json:
    """A whole answer as one JSON object."""
    blocks: list[dict[str, object]] = []
    end = End("stop", Usage())
    for piece in pieces:
        match piece:
            case End():
                end = piece
            case Text(text) if blocks and blocks[-1]["type"] == "text":
                blocks[-1]["text"] = f"{blocks[-1]['text']}{text}"
            case Text(text):
                blocks.append({"type": "text", "text": text})
            case Call(call):
                head = {"type": "tool_use", "id": call.id, "name": call.name}
                blocks.append({**head, "input": _input(call.arguments)})
            case Thought():
                _think(blocks, piece)
            case Wait():
                pass
    stop = {"stop_reason": _stop_reason(end), "stop_sequence": None}
    return {**_head(model), "content": blocks, **stop, "usage": _usage(end.usage)}


def _think(blocks: list[dict[str, object]], piece: Thought) -> None:
    """Add a bit of thought: to the last block, if that is a thought not yet signed."""
    if piece.redacted:
        blocks.append(dict(_opening(piece)))
        return
    if not blocks or blocks[-1].get("signature") != "":
        blocks.append(dict(_opening(piece)))
    blocks[-1]["thinking"] = f"{blocks[-1]['thinking']}{piece.text}"
    blocks[-1]["signature"] = piece.signature


def events_from(pieces: Iterator[Piece], model: str) -> Iterator[bytes]:
    """The same as server-sent events, each as soon as its piece is there."""
    nothing: Json = {"content": [], "stop_reason": None, "stop_sequence": None}
    message = {**_head(model), **nothing, "usage": _usage(Usage())}
    yield _event("message_start", message=message)
    numbers, number, open_kind = count(), -1, ""
    for piece in pieces:
        if isinstance(piece, Wait):
            yield _event("ping")
            continue
        kind = _kind(piece)
        if open_kind and kind != open_kind:
            yield _event("content_block_stop", index=number)
            open_kind = ""
        if isinstance(piece, End):
            end = {"stop_reason": _stop_reason(piece), "stop_sequence": None}
            yield _event("message_delta", delta=end, usage=_usage(piece.usage))
            continue
        if not open_kind:
            number, open_kind = next(numbers), kind
            yield _event("content_block_start", index=number, content_block=_opening(piece))
        if (delta := _delta(piece)) is not None:
            yield _event("content_block_delta", index=number, delta=delta)
        if isinstance(piece, Thought) and piece.last:
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
    return event(error_body(message, 500), name="error")


def _event(name: str, **fields: object) -> bytes:
    return event({"type": name, **fields}, name=name)


def _kind(piece: Text | Thought | Call | End) -> str:
    """What may share a block has the same kind; each call has one of its own."""
    match piece:
        case Text():
            return "text"
        case Thought(redacted=data):
            return "redacted" if data else "thinking"
        case Call(call):
            return f"call {call.id}"
        case End():
            return "end"


def _opening(piece: Text | Thought | Call) -> Json:
    match piece:
        case Text():
            return {"type": "text", "text": ""}
        case Thought(redacted=data) if data:
            return {"type": "redacted_thinking", "data": data}
        case Thought():
            return {"type": "thinking", "thinking": "", "signature": ""}
        case Call(call):
            return {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}


def _delta(piece: Text | Thought | Call) -> Json | None:
    match piece:
        case Text(text):
            return {"type": "text_delta", "text": text}
        case Thought(redacted=data) if data:
            return None
        case Thought(signature=signature) if signature:
            return {"type": "signature_delta", "signature": signature}
        case Thought(text):
            return {"type": "thinking_delta", "thinking": text}
        case Call(call):
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


def _stop_reason(end: End) -> str:
    return _STOP_REASONS.get(end.stop_reason, "end_turn")


def _usage(usage: Usage) -> Json:
    counts = asdict(usage)
    return {
        "input_tokens": counts["input"],
        "output_tokens": counts["output"],
        "cache_read_input_tokens": counts["cache_read"],
        "cache_creation_input_tokens": counts["cache_write"],
    }
