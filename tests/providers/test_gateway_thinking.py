"""Thinking blocks reach the agent with their signatures, and are sent back unchanged."""

import json
from collections.abc import Iterator

import pytest

from contracts.chat import Usage
from providers.client import Gateway
from tests.support import anthropic_events as events
from tests.support.fake_provider import Answer, Provider, provider
from tests.support.gateway import AgentClient, Open, read_events
from tests.support.running_gateway import running_gateway

# litellm asks pydantic in ways that pydantic warns of, at whichever call comes first.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Accessing the"),
    pytest.mark.filterwarnings("ignore:Item '.*' on TypedDict"),
]

MODEL = "anthropic/claude-sonnet-4-5"
THINKING = {"type": "enabled", "budget_tokens": 1024}
BASH = {"name": "Bash", "description": "runs", "input_schema": {"type": "object"}}
SAID = events.message(
    events.thinking("sig-1", "The test ", "fails."),
    events.redacted("c2VjcmV0"),
    events.text("Let me ", "look."),
    events.tool_use("Bash", '{"comm', 'and": "ls"}'),
    stop_reason="tool_use",
)
BLOCKS = [
    {"type": "thinking", "thinking": "The test fails.", "signature": "sig-1"},
    {"type": "redacted_thinking", "data": "c2VjcmV0"},
    {"type": "text", "text": "Let me look."},
    {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}},
]


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    with running_gateway() as client:
        yield client


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    done = Answer(events=events.message(events.text("Done.")), named=True)
    with provider(Answer(events=SAID, named=True), done) as running:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-test-0123456789")
        monkeypatch.setenv("ANTHROPIC_API_BASE", running.url)
        yield running


def ask(client: AgentClient) -> list[dict[str, object]]:
    options = {"thinking": THINKING, "tools": [BASH], "max_tokens": 4096}
    turns = [{"role": "user", "content": "hello"}]
    return read_events(client.post("/v1/messages", {"messages": turns, "stream": True, **options}))


def blocks(said: list[dict[str, object]]) -> list[dict[str, object]]:
    """Return the content blocks that a client builds from the events."""
    made: list[dict[str, object]] = []
    parts: list[str] = []
    for event in said:
        if event["type"] == "content_block_start":
            assert isinstance(event["content_block"], dict)
            made.append(dict(event["content_block"]))
            parts = []
        elif event["type"] == "content_block_delta":
            delta = event["delta"]
            assert isinstance(delta, dict)
            if delta["type"] == "input_json_delta":
                parts.append(delta["partial_json"])
                made[-1]["input"] = json.loads("".join(parts))
            else:
                name = delta["type"].removesuffix("_delta")
                made[-1][name] = f"{made[-1][name]}{delta[name]}"
    return made


def test_thinking_is_streamed_with_signatures_and_redacted_blocks(
    agent: Open, served: Provider
) -> None:
    client = agent(MODEL)
    said = ask(client)
    assert blocks(said) == BLOCKS
    assert said[-2]["delta"] == {"stop_reason": "tool_use", "stop_sequence": None}
    assert served.requests[0]["thinking"] == THINKING
    assert served.requests[0]["stream"] is True
    spent = client.access.current_usage()
    assert spent.usage == Usage(
        input=40, output=25, cache_read=900, cache_write=60, cost_usd=spent.usage.cost_usd
    )
    price = (40 * 3 + 900 * 0.3 + 60 * 3.75 + 25 * 15) / 1e6
    assert spent.usage.cost_usd == pytest.approx(price)


def test_thinking_is_sent_back_unchanged(agent: Open, served: Provider) -> None:
    client = agent(MODEL)
    said = blocks(ask(client))
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "a.py"}
    turns = [
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": said},
        {"role": "user", "content": [result]},
    ]
    body = {"messages": turns, "thinking": THINKING, "tools": [BASH], "max_tokens": 4096}
    answer = client.post("/v1/messages", {**body, "stream": True})
    assert blocks(read_events(answer)) == [{"type": "text", "text": "Done."}]
    sent = served.requests[1]["messages"][1]["content"]
    assert [{k: v for k, v in block.items() if k != "cache_control"} for block in sent] == BLOCKS


def test_a_complete_answer_contains_thinking(agent: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = {"input_tokens": 40, "output_tokens": 25}
    head = {"id": "m", "type": "message", "role": "assistant", "model": "claude"}
    whole = {**head, "content": BLOCKS, "stop_reason": "tool_use", "usage": usage}
    with provider(Answer(whole)) as running:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-test-0123456789")
        monkeypatch.setenv("ANTHROPIC_API_BASE", running.url)
        said = agent(MODEL).messages(thinking=THINKING, tools=[BASH]).json()
    assert said["content"] == BLOCKS
