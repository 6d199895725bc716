"""A client that talks to the gateway as an agent does, and an answer of OpenAI's API."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import httpx

from contracts.chat import ChatRequest, Message
from contracts.model_access import ModelAccess
from tests.support.fake_provider import Answer


@dataclass
class AgentClient:
    """Posts JSON with its token, and reads JSON or events."""

    access: ModelAccess
    http: httpx.Client
    trajectory: Path

    def post(self, path: str, body: object, token: str | None = None) -> httpx.Response:
        headers = {
            "x-api-key": token or self.access.token,
            "anthropic-beta": "not-known-2031-01-01",
        }
        return self.http.post(path, json=body, headers=headers)

    def messages(self, text: str = "hello", **more: object) -> httpx.Response:
        turn = {"role": "user", "content": text}
        body = {"model": "claude-x", "max_tokens": 100, "messages": [turn], **more}
        return self.post("/v1/messages?beta=true", body)

    def chat(self, text: str = "hello", **more: object) -> httpx.Response:
        turn = {"role": "user", "content": text}
        return self.post("/v1/chat/completions", {"model": "m", "messages": [turn], **more})

    def events(self, *kinds: str) -> list[dict[str, object]]:
        found = map(json.loads, self.trajectory.read_text().splitlines())
        return [event for event in found if not kinds or event["kind"] in kinds]


Open = Callable[..., AgentClient]
Script = Callable[..., str]
USAGE = {"input": 10, "output": 2, "cache_read": 3, "cache_write": 4, "cost_usd": 0.004}
LS = {"id": "c1", "function": {"name": "Bash", "arguments": {"command": "ls"}}}
ASK = ChatRequest(model="m", messages=[Message(role="user", content="go")])


def read_events(response: httpx.Response) -> list[dict[str, object]]:
    """Return the data of server-sent events that is JSON."""
    lines = (line.removeprefix("data: ") for line in response.text.splitlines())
    return [json.loads(line) for line in lines if line.startswith("{")]


def openai_answer(message: dict[str, object], **more: object) -> Answer:
    """Return a complete answer of OpenAI's API with this message."""
    finish = "tool_calls" if "tool_calls" in message else "stop"
    return Answer(
        {
            "id": "x",
            "object": "chat.completion",
            "created": 1,
            "model": "gpt-4o",
            "choices": [
                {
                    "index": 0,
                    "finish_reason": finish,
                    "message": {"role": "assistant", "content": None, **message},
                }
            ],
            "usage": {
                "prompt_tokens": 1000,
                "completion_tokens": 10,
                "total_tokens": 1010,
                "prompt_tokens_details": {"cached_tokens": 600},
            },
            **more,
        }
    )
