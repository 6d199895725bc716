"""Events of OpenAI's API, for the fake provider."""

import json

USAGE = {"prompt_tokens": 1000, "completion_tokens": 10, "total_tokens": 1010}
HEAD = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "gpt-4o"}


def text(*parts: str) -> list[str]:
    """Return a complete answer in these parts."""
    return [*begun(*parts), *_ending("stop")]


def begun(*parts: str) -> list[str]:
    """Return the beginning of an answer, without its end."""
    return [_chunk({"role": "assistant", "content": part}) for part in parts]


def calls(name: str, *arguments: str) -> list[str]:
    """Return a tool call with its arguments in these fragments."""
    function = {"name": name, "arguments": ""}
    first = {"index": 0, "id": "c1", "type": "function", "function": function}
    return [
        _chunk({"role": "assistant", "content": None, "tool_calls": [first]}),
        *(_chunk({"tool_calls": [_part(part)]}) for part in arguments),
        *_ending("tool_calls"),
    ]


def _part(arguments: str) -> dict[str, object]:
    return {"index": 0, "function": {"arguments": arguments}}


def _ending(reason: str) -> list[str]:
    usage = json.dumps({**HEAD, "choices": [], "usage": USAGE})
    return [_chunk({}, reason), usage, "[DONE]"]


def _chunk(delta: dict[str, object], reason: str | None = None) -> str:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return json.dumps({**HEAD, "choices": [choice]})
