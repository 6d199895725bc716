"""Ollama's HTTP API on loopback, with models that answer in a fixed way.

    qwen3:4b       thinks, answers, calls the tools it is offered, obeys a JSON Schema
    gemma3:1b      has no tool calls
    nomic-embed-text  returns vectors

Like the real API: an answer is streamed, one JSON object a line, unless the request says
otherwise; an error is `{"error": …}` with 400 or 404.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from pydantic import BaseModel, JsonValue, ValidationError

from tests.support.fake_provider import serving

CREATED = "2026-01-01T00:00:00.000000Z"
COUNTS = {"total_duration": 9, "load_duration": 1, "prompt_eval_count": 26, "eval_count": 17}
CHATS = ("qwen3:4b", "gemma3:1b")


class _Call(BaseModel):
    function: dict[str, JsonValue]


class _Message(BaseModel):
    role: str
    content: str = ""
    thinking: str = ""
    tool_calls: list[_Call] = []
    tool_name: str = ""


class _Chat(BaseModel):
    model: str
    messages: list[_Message]
    tools: list[dict[str, JsonValue]] = []
    format: dict[str, JsonValue] | str = ""
    options: dict[str, JsonValue] = {}
    stream: bool = True
    think: bool | None = None


class _Embed(BaseModel):
    model: str
    input: list[str] | str
    dimensions: int = 4


@dataclass
class Ollama:
    url: str
    asked: list[tuple[str, dict[str, Any]]] = field(default_factory=list)  # JSON of any shape


class _Refused(Exception):
    pass


@contextmanager
def ollama() -> Iterator[Ollama]:
    """Serve on a free port; `asked` collects each path and body."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            served.asked.append((self.path, body))
            try:
                answers = _ANSWERS[self.path](body)
            except (_Refused, ValidationError, KeyError) as error:
                self.give(404 if "not found" in str(error) else 400, [{"error": str(error)}])
            else:
                self.give(200, answers)

        def give(self, status: int, lines: list[Mapping[str, object]]) -> None:
            self.send_response(status)
            streamed = len(lines) > 1
            kind = "application/x-ndjson" if streamed else "application/json; charset=utf-8"
            self.send_header("content-type", kind)
            self.end_headers()
            for line in lines:
                self.wfile.write(json.dumps(line).encode() + b"\n" * streamed)
                self.wfile.flush()

        def log_message(self, *args: object) -> None:
            pass

    with serving(Handler) as url:
        served = Ollama(url)
        yield served


def _chat(body: object) -> list[Mapping[str, object]]:
    asked = _Chat.model_validate(body)
    if asked.model not in CHATS:
        raise _Refused(f"model {asked.model!r} not found")
    if asked.tools and asked.model != "qwen3:4b":
        raise _Refused(f"registry.ollama.ai/library/{asked.model} does not support tools")
    said = _said(asked)
    head = {"model": asked.model, "created_at": CREATED}
    end = {"done_reason": "stop", "done": True, **COUNTS}
    if not asked.stream:
        return [{**head, "message": _joined(said), **end}]
    parts = [{**head, "message": {"role": "assistant", **part}, "done": False} for part in said]
    return [*parts, {**head, "message": {"role": "assistant", "content": ""}, **end}]


def _said(asked: _Chat) -> list[dict[str, object]]:
    last = asked.messages[-1]
    if asked.tools and last.role == "user":
        functions = [_map(tool["function"]) for tool in asked.tools]
        calls = [{"name": f["name"], "arguments": _made(f["parameters"])} for f in functions]
        return [{"content": "", "tool_calls": [{"function": call}]} for call in calls]
    if isinstance(asked.format, dict):
        kept = json.dumps(_made(asked.format))
        return [{"content": kept[:5]}, {"content": kept[5:]}]
    said: list[dict[str, object]] = [{"content": "It says: "}, {"content": last.content}]
    thought: dict[str, object] = {"content": "", "thinking": "Hmm."}
    return [thought, *said] if asked.think else said


def _joined(said: list[dict[str, object]]) -> dict[str, object]:
    whole: dict[str, object] = {"role": "assistant", "content": ""}
    for part in said:
        for name, value in part.items():
            whole[name] = whole[name] + value if name in whole else value  # type: ignore[operator]  # texts or lists
    return whole


def _made(schema: object) -> JsonValue:
    """Return a value that obeys the schema."""
    known = _map(schema)
    match known.get("type"):
        case "object":
            return {name: _made(part) for name, part in _map(known.get("properties")).items()}
        case "array":
            return [_made(known.get("items"))]
        case "integer" | "number":
            return 7
        case "boolean":
            return True
        case _:
            return "ls"


def _map(raw: object) -> Mapping[str, JsonValue]:
    return raw if isinstance(raw, dict) else {}


def _embed(body: object) -> list[Mapping[str, object]]:
    asked = _Embed.model_validate(body)
    if asked.model != "nomic-embed-text":
        raise _Refused(f"model {asked.model!r} not found")
    texts = [asked.input] if isinstance(asked.input, str) else asked.input
    vectors = [[len(text) / 100, *[0.5] * (asked.dimensions - 1)] for text in texts]
    count = sum(len(text.split()) for text in texts)
    return [{"model": asked.model, "embeddings": vectors, "prompt_eval_count": count}]


def _show(body: object) -> list[Mapping[str, object]]:
    model = _map(body).get("model") or _map(body).get("name")
    tools = ["tools", "thinking"] if model == "qwen3:4b" else []
    return [{"capabilities": ["completion", *tools], "model_info": {}, "details": {}}]


_ANSWERS = {"/api/chat": _chat, "/api/embed": _embed, "/api/show": _show}
