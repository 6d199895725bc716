"""Streamed answers from a provider through litellm and the gateway to an agent."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from providers.account import MAX_CONCURRENT
from tests.support import openai_events
from tests.support.fake_provider import Answer, provider, use_as_openai
from tests.support.gateway import AgentClient, Open, read_events
from tests.support.waiting import LONG_S, wait_until

# litellm asks pydantic in ways that pydantic warns of, at whichever call comes first.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Accessing the"),
    pytest.mark.filterwarnings("ignore:Item '.*' on TypedDict"),
]
MODEL = "openai/gpt-4o"
ENDLESS = Answer(events=openai_events.text(*(f"word {n} " for n in range(10_000))), pause_s=0.1)
PRICE = 1000 * 2.5e-6 + 10 * 1e-5


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789abcdef")


@contextmanager
def begun(client: AgentClient) -> Iterator[None]:
    """Keep a stream open during the block, then disconnect."""
    headers = {"x-api-key": client.access.token}
    body = {"messages": [{"role": "user", "content": "x"}], "stream": True}
    with client.http.stream("POST", "/v1/messages", json=body, headers=headers) as response:
        heard = response.iter_bytes()  # hangs up when it is forgotten
        assert b"message_start" in next(heard)
        yield


def begins(client: AgentClient) -> bool:
    """Return whether one more stream may begin; disconnect at once."""
    headers = {"x-api-key": client.access.token}
    body = {"messages": [{"role": "user", "content": "x"}], "stream": True}
    with client.http.stream("POST", "/v1/messages", json=body, headers=headers) as response:
        return response.is_success


def test_a_stream_comes_through_with_usage_and_money(
    agent: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    with provider(Answer(events=openai_events.text("one ", "two"))) as served:
        use_as_openai(served, monkeypatch)
        client = agent(MODEL)
        events = read_events(client.messages(stream=True))
    deltas = [e["delta"] for e in events if e["type"] == "content_block_delta"]
    assert deltas == [{"type": "text_delta", "text": "one "}, {"type": "text_delta", "text": "two"}]
    assert events[-2]["usage"] == {
        "input_tokens": 1000,
        "output_tokens": 10,
        "cache_read_input_tokens": 0,
        "cache_creation_input_tokens": 0,
    }
    assert client.access.current_usage().usage.cost_usd == pytest.approx(PRICE)
    assert served.requests[0]["stream_options"] == {"include_usage": True}


def test_each_part_is_sent_at_once(agent: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    heard, parts = threading.Semaphore(0), 0

    def each_after_the_last_was_heard() -> Iterator[str]:
        for event in openai_events.begun(*"abcdef"):
            yield event
            assert heard.acquire(timeout=LONG_S)
        yield from openai_events.text()

    with provider(Answer(events=each_after_the_last_was_heard())) as served:
        use_as_openai(served, monkeypatch)
        client = agent(MODEL)
        headers = {"x-api-key": client.access.token}
        body = {"messages": [{"role": "user", "content": "x"}], "stream": True}
        with client.http.stream("POST", "/v1/messages", json=body, headers=headers) as response:
            for line in response.iter_lines():
                if "text_delta" in line:
                    parts += 1
                    heard.release()
    assert parts == 6


def test_the_guard_sees_streamed_calls_complete(
    agent: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = ('{"comm', 'and": "rm', ' -rf ."}')
    with provider(Answer(events=openai_events.calls("Bash", *parts))) as served:
        use_as_openai(served, monkeypatch)
        client = agent(MODEL, allowed=("shell(ls*)",))
        events = read_events(client.messages(stream=True))
    assert "rm -rf" not in str(events)
    assert "not allowed here" in str(events)
    assert client.events("reply")[0]["message"] == {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": "c1",
                "type": "function",
                "function": {"name": "Bash", "arguments": "".join(parts)},
            }
        ],
    }


@pytest.mark.parametrize("path", ["messages", "chat"])
def test_an_interrupted_stream_is_an_error_event_and_is_counted(
    agent: Open, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    with provider(Answer(events=openai_events.begun("one ", "two " * 1000))) as served:
        use_as_openai(served, monkeypatch)
        client = agent(MODEL)
        ask = client.messages if path == "messages" else client.chat
        last = read_events(ask(stream=True))[-1]
    assert "the answer of 'openai/gpt-4o' broke off" in str(last["error"])
    spent = client.access.current_usage()
    assert spent.usage.output == 1001
    assert spent.usage.cost_usd > 0
    assert "broke off" in str(spent.outage)
    (broken,) = client.events("broken")
    assert broken["size"] == 4004


def test_an_answer_is_counted_when_the_agent_disconnects(
    agent: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("providers.account.SETTLE_TIMEOUT_S", LONG_S)
    monkeypatch.setattr("providers.client._GATEWAY_TIMEOUT_S", LONG_S)
    with provider(ENDLESS) as served:
        use_as_openai(served, monkeypatch)
        client = agent(MODEL)
        with begun(client):
            assert client.access.current_usage().turns == 0
        settled = client.access.final_usage()
        assert (settled.turns, settled.usage.output > 0) == (1, True)
        wait_until(lambda: client.events("broken"))
    assert client.events("broken")[0]["why"] == "the agent hung up"


def test_turns_under_way_count_towards_the_limit(
    agent: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    with provider(ENDLESS) as served:
        use_as_openai(served, monkeypatch)
        client = agent(MODEL, turns=1)
        with begun(client):
            assert "turn limit of 1 reached" in client.messages(stream=True).text
    assert len(served.requests) == 1


def test_concurrent_turns_of_one_agent_are_limited(
    agent: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    with provider(ENDLESS) as served, ExitStack() as others:
        use_as_openai(served, monkeypatch)
        client = agent(MODEL)
        with begun(client):
            for _ in range(MAX_CONCURRENT - 1):
                others.enter_context(begun(client))
            messages, chat = client.messages(), client.chat()
            assert [messages.status_code, chat.status_code] == [429, 429]
            assert messages.headers["x-should-retry"] == "true"
            assert messages.headers["retry-after"] == "1"
            for refused in (messages, chat):
                assert refused.json()["error"]["type"] == "rate_limit_error"
        wait_until(lambda: begins(client))
    assert client.access.current_usage().stopped is None


def test_ten_megabytes_are_streamed_completely(
    agent: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = [f"{n:06}" + "x" * 10_000 for n in range(1000)]
    with provider(Answer(events=openai_events.text(*parts))) as served:
        use_as_openai(served, monkeypatch)
        client = agent(MODEL)
        events = read_events(client.messages(stream=True))
    texts = [e["delta"]["text"] for e in events if e["type"] == "content_block_delta"]  # type: ignore[index]  # plain JSON
    assert "".join(texts) == "".join(parts)
    (reply,) = client.events("reply")
    assert reply["cut"] is True
    assert client.access.current_usage().usage.output == 10


def test_a_model_that_repeats_one_chunk_is_stopped(
    agent: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    with provider(Answer(events=openai_events.text(*(["again "] * 500)))) as served:
        use_as_openai(served, monkeypatch)
        events = read_events(agent(MODEL).messages(stream=True))
    assert "repeating the same chunk" in str(events[-1])
