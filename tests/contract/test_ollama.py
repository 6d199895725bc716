"""Ollama through the real litellm in the gateway: our stand-in, and a real one where there is one.

`HARNESS_TEST_OLLAMA=http://localhost:11434` runs the same against that, which needs the models
`qwen3:4b` and `nomic-embed-text`.
"""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from contracts.chat import ChatRequest, Message
from contracts.errors import ModelUnavailable
from contracts.model_access import INTERNAL_AGENT, ModelAccess, TokenSpec
from contracts.tool import Tool
from providers.client import Gateway
from providers.embed import EmbeddingRequest
from providers.gateway_api import RunTerms
from tests.support.fake_ollama import Ollama, ollama
from tests.support.gateway import read_events
from tests.support.running_gateway import running_gateway

pytestmark = [
    # litellm asks pydantic in ways that pydantic warns of, at whichever call comes first.
    pytest.mark.filterwarnings("ignore:Accessing the"),
    pytest.mark.filterwarnings("ignore:Item '.*' on TypedDict"),
]

Open = Callable[..., ModelAccess]
REAL = os.environ.get("HARNESS_TEST_OLLAMA", "")
MODEL = "ollama/qwen3:4b"
HELLO = Message(role="user", content="Say hello. /no_think")
SCHEMA = {
    "type": "object",
    "properties": {
        "title": {"type": "string"},
        "steps": {"type": "array", "items": {"type": "integer"}},
    },
    "required": ["title", "steps"],
}
BASH = Tool(
    name="bash",
    description="Runs a command.",
    parameters={
        "type": "object",
        "properties": {"command": {"type": "string"}},
        "required": ["command"],
    },
)


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    with running_gateway() as client:
        yield client


@pytest.fixture(params=["stand-in", *(["real"] if REAL else [])])
def served(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ollama]:
    with ollama() as stand_in:
        place = stand_in if request.param == "stand-in" else Ollama(REAL)
        monkeypatch.setenv("OLLAMA_API_BASE", place.url)
        yield place


@pytest.fixture
def open_gate(gateway: Gateway, tmp_path: Path) -> Iterator[Open]:
    run = RunTerms(run_id="r", trajectory=tmp_path / "t.jsonl")
    with gateway.run(run) as open_run, ExitStack() as stack:

        def open_(model: str = MODEL) -> ModelAccess:
            terms = TokenSpec(node="n", agent=INTERNAL_AGENT, model=model)
            return stack.enter_context(open_run(terms))

        yield open_


def stream(gateway: Gateway, gate: ModelAccess, **more: object) -> list[dict[str, object]]:
    turn = {"role": "user", "content": HELLO.content}
    body = {"messages": [turn], "max_tokens": 500, "stream": True, **more}
    headers = {"x-api-key": gate.token}
    url = f"{gateway.url}/v1/messages"
    return read_events(httpx.post(url, json=body, headers=headers, timeout=600))


def test_a_reply_without_streaming(served: Ollama, open_gate: Open) -> None:
    reply = open_gate().complete(ChatRequest(model=MODEL, messages=[HELLO]))
    assert reply.message.content
    assert (reply.stop_reason, reply.usage.cost_usd) == ("stop", 0.0)
    assert reply.usage.input > 0
    assert reply.usage.output > 0


def test_a_streamed_reply(served: Ollama, gateway: Gateway, open_gate: Open) -> None:
    gate = open_gate()
    events = stream(gateway, gate)
    deltas = [e["delta"] for e in events if e["type"] == "content_block_delta"]
    assert len(deltas) > 1
    assert events[-1] == {"type": "message_stop"}
    assert gate.current_usage().usage.input > 0
    assert gate.current_usage().usage.output > 0


def test_a_reply_follows_a_json_schema(served: Ollama, open_gate: Open) -> None:
    request = ChatRequest(model=MODEL, messages=[HELLO], response_schema=SCHEMA)
    made = json.loads(open_gate().complete(request).message.content)
    assert isinstance(made["title"], str)
    assert all(isinstance(step, int) for step in made["steps"])


def test_the_model_calls_a_tool_and_gets_the_result(served: Ollama, open_gate: Open) -> None:
    gate, asked = open_gate(), Message(role="user", content="List the files. Call bash. /no_think")
    reply = gate.complete(ChatRequest(model=MODEL, messages=[asked], tools=[BASH]))
    (call,) = reply.message.tool_calls
    assert (call.name, list(json.loads(call.arguments))) == ("bash", ["command"])
    assert reply.stop_reason == "tool_calls"
    result = Message(role="tool", content="a.py", tool_call_id=call.id)
    said = [asked, reply.message, result]
    assert gate.complete(ChatRequest(model=MODEL, messages=said, tools=[BASH])).message.content


def test_tool_calls_are_streamed(served: Ollama, gateway: Gateway, open_gate: Open) -> None:
    tool = {"name": "bash", "description": "Runs a command.", "input_schema": BASH.parameters}
    turn = {"role": "user", "content": "List the files. Call bash. /no_think"}
    events = stream(gateway, open_gate(), tools=[tool], messages=[turn])
    begun = [e["content_block"] for e in events if e["type"] == "content_block_start"]
    assert [block["name"] for block in begun if block["type"] == "tool_use"] == ["bash"]  # type: ignore[index]  # plain JSON


def test_embeddings(served: Ollama, gateway: Gateway, open_gate: Open) -> None:
    model = "ollama/nomic-embed-text"
    gate = open_gate(model)
    vectors = gateway.embed(gate.token, EmbeddingRequest(input=["one", "two words", "three"]))
    assert len(vectors) == 3
    assert len({len(vector) for vector in vectors}) == 1
    assert gate.current_usage().usage.input > 0


@pytest.mark.parametrize(
    ("model", "told"),
    [
        ("ollama/nobody-has-this", "not found"),
        ("ollama/gemma3:1b", "does not support tools"),
    ],
)
def test_an_unsupported_request_is_a_message_of_one_line(
    open_gate: Open, model: str, told: str, served: Ollama
) -> None:
    if served.url == REAL:
        pytest.skip("not every Ollama has these models")
    request = ChatRequest(model=model, messages=[HELLO], tools=[BASH])
    with pytest.raises(ModelUnavailable, match=told):
        open_gate(model).complete(request)


def test_the_requests_on_the_wire(open_gate: Open, served: Ollama) -> None:
    """How it is asked, which only our stand-in tells."""
    if served.url == REAL:
        pytest.skip("it tells nobody what it was asked")
    request = ChatRequest(model=MODEL, messages=[HELLO], tools=[BASH], response_schema=SCHEMA)
    open_gate().complete(request)
    path, body = served.asked[-1]
    assert (path, body["model"], body["stream"]) == ("/api/chat", "qwen3:4b", False)
    assert body["format"] == SCHEMA
    assert [tool["function"]["name"] for tool in body["tools"]] == ["bash"]


def test_two_tool_calls_in_one_reply_stay_separate(
    open_gate: Open, gateway: Gateway, served: Ollama
) -> None:
    tools = [
        {"name": name, "description": "x", "input_schema": BASH.parameters}
        for name in ("one", "two")
    ]
    events = stream(gateway, open_gate(), tools=tools)
    if served.url == REAL:
        pytest.skip("it may call one or the other")
    begun = [e["content_block"] for e in events if e["type"] == "content_block_start"]
    assert [block["name"] for block in begun] == ["one", "two"]  # type: ignore[index]  # plain JSON
    assert len({block["id"] for block in begun}) == 2  # type: ignore[index]  # plain JSON
