"""Events of Anthropic's Messages API, for the fake provider."""

import json
from collections.abc import Mapping

USAGE = {
    "input_tokens": 40,
    "cache_read_input_tokens": 900,
    "cache_creation_input_tokens": 60,
    "output_tokens": 1,
}


def message(*blocks: list[dict[str, object]], stop_reason: str = "end_turn") -> list[str]:
    """Return a complete answer of `thinking`, `redacted`, `text` and `tool_use` blocks."""
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "content": []}
    began = {**head, "stop_reason": None, "stop_sequence": None, "usage": USAGE}
    events: list[Mapping[str, object]] = [{"type": "message_start", "message": began}]
    events.append({"type": "ping"})
    for index, (opening, *deltas) in enumerate(blocks):
        start = {"type": "content_block_start", "index": index, "content_block": opening}
        parts = ({"type": "content_block_delta", "index": index, "delta": d} for d in deltas)
        events += [start, *parts, {"type": "content_block_stop", "index": index}]
    delta = {"stop_reason": stop_reason, "stop_sequence": None}
    events.append({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 25}})
    events.append({"type": "message_stop"})
    return [json.dumps(event) for event in events]


def thinking(signature: str, *parts: str) -> list[dict[str, object]]:
    """Return a thinking block with a signature."""
    opening: dict[str, object] = {"type": "thinking", "thinking": "", "signature": ""}
    deltas: list[dict[str, object]] = [{"type": "thinking_delta", "thinking": p} for p in parts]
    return [opening, *deltas, {"type": "signature_delta", "signature": signature}]


def redacted(data: str) -> list[dict[str, object]]:
    """Return a redacted thinking block."""
    return [{"type": "redacted_thinking", "data": data}]


def text(*parts: str) -> list[dict[str, object]]:
    """Return a text block."""
    opening: dict[str, object] = {"type": "text", "text": ""}
    deltas: list[dict[str, object]] = [{"type": "text_delta", "text": part} for part in parts]
    return [opening, *deltas]


def tool_use(name: str, *parts: str) -> list[dict[str, object]]:
    """Return a tool call with its arguments in these fragments."""
    opening: dict[str, object] = {"type": "tool_use", "id": "toolu_1", "name": name, "input": {}}
    deltas: list[dict[str, object]] = [
        {"type": "input_json_delta", "partial_json": part} for part in parts
    ]
    return [opening, *deltas]
