"""A gateway for the tests of this folder, and an agent's way to speak with it."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from contracts.chat import ChatRequest, Message
from contracts.gate import Gate, Terms
from providers.client import Gateway
from providers.run_account import RunTerms
from tests.providers.running_gateway import running_gateway
from tests.waiting import LONG_S


@dataclass
class AgentClient:
    """What an agent does: posts JSON with its token, reads JSON or events."""

    gate: Gate
    http: httpx.Client
    trajectory: Path

    def post(self, path: str, body: object, token: str | None = None) -> httpx.Response:
        headers = {"x-api-key": token or self.gate.token, "anthropic-beta": "not-known-2031-01-01"}
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


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    with running_gateway() as client:
        yield client


@pytest.fixture
def agent(gateway: Gateway, tmp_path: Path) -> Iterator[Open]:
    """Opens a run and a token for one agent; both end with the test."""
    with ExitStack() as stack:

        def open_(
            model: str,
            *,
            name: str = "claude-code",
            allowed: tuple[str, ...] | None = None,
            turns: int | None = None,
            run_id: str = "r1",
            **run: object,
        ) -> AgentClient:
            trajectory = tmp_path / f"{run_id}.jsonl"
            fields = {"run_id": run_id, "trajectory": trajectory, **run}
            open_gate = stack.enter_context(gateway.run(RunTerms.model_validate(fields)))
            terms = Terms(node="fix", agent=name, model=model, allowed_tools=allowed, turns=turns)
            gate = stack.enter_context(open_gate(terms))
            http = stack.enter_context(httpx.Client(base_url=gateway.url, timeout=LONG_S))
            return AgentClient(gate, http, trajectory)

        yield open_


@pytest.fixture
def script(tmp_path: Path) -> Script:
    """Writes replies to a file and names the model that gives them."""

    def write(*replies: object) -> str:
        path = tmp_path / "replies.jsonl"
        path.write_text("".join(json.dumps(reply) + "\n" for reply in replies))
        return f"scripted/{path}"

    return write


def read_events(response: httpx.Response) -> list[dict[str, object]]:
    """The data of server-sent events, as far as it is JSON."""
    lines = (line.removeprefix("data: ") for line in response.text.splitlines())
    return [json.loads(line) for line in lines if line.startswith("{")]
