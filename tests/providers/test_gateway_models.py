"""The gateway in front of a provider that misbehaves, through the real litellm."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from typing import cast

import pytest

from contracts.errors import ModelUnavailable
from contracts.gate import OURSELVES
from providers.account import AT_ONCE, REFUSED_IN_A_ROW
from providers.client import Gateway
from tests.providers import openai_events
from tests.providers.conftest import AgentClient, Open, read_events
from tests.providers.fake_provider import Answer, Provider, provider
from tests.providers.running_gateway import running_gateway
from tests.providers.test_chat import openai_answer

# litellm asks pydantic in ways that pydantic warns of, at whichever call comes first.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Accessing the"),
    pytest.mark.filterwarnings("ignore:Item '.*' on TypedDict"),
]

KEY = "sk-test-0123456789abcdef"
MODEL = "openai/gpt-4o"
ENDLESS = Answer(events=openai_events.text(*(f"word {n} " for n in range(400))), pause_s=0.1)
PRICE = 1000 * 2.5e-6 + 10 * 1e-5


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


@pytest.fixture
def pauses() -> list[float]:
    return []


@pytest.fixture
def gateway(pauses: list[float]) -> Iterator[Gateway]:
    """One that does not really wait before it asks again."""
    with running_gateway(pause=pauses.append) as client:
        yield client


def at(served: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_BASE", served.url)


def refusal(status: int, message: str) -> Answer:
    return Answer({"error": {"message": message, "type": "x"}}, status)


@contextmanager
def begun(client: AgentClient) -> Iterator[None]:
    """While a stream has begun and goes on; then the agent hangs up."""
    headers = {"x-api-key": client.gate.token}
    body = {"messages": [{"role": "user", "content": "x"}], "stream": True}
    with client.http.stream("POST", "/v1/messages", json=body, headers=headers) as response:
        heard = response.iter_bytes()  # hangs up when it is forgotten
        assert b"message_start" in next(heard)
        yield


def test_a_stream_comes_through_with_usage_and_money(
    agent: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    with provider(Answer(events=openai_events.text("one ", "two"))) as served:
        at(served, monkeypatch)
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
    assert client.gate.spent().usage.cost_usd == pytest.approx(PRICE)
    assert served.requests[0]["stream_options"] == {"include_usage": True}


def test_nothing_is_held_back(agent: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Answer(events=openai_events.text(*"abcdef"), pause_s=0.2)
    with provider(slow) as served:
        at(served, monkeypatch)
        client = agent(MODEL)
        headers = {"x-api-key": client.gate.token}
        body = {"messages": [{"role": "user", "content": "x"}], "stream": True}
        with client.http.stream("POST", "/v1/messages", json=body, headers=headers) as response:
            seen = [time.monotonic() for line in response.iter_lines() if "text_delta" in line]
    gaps = [later - earlier for earlier, later in pairwise(seen)]
    assert len(gaps) == 5
    assert min(gaps) > 0.1


def test_a_streamed_call_is_whole_before_it_is_judged(
    agent: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = ('{"comm', 'and": "rm', ' -rf ."}')
    with provider(Answer(events=openai_events.calls("Bash", *parts))) as served:
        at(served, monkeypatch)
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


def test_a_rate_limit_is_waited_out_before_the_first_byte(
    agent: Open, monkeypatch: pytest.MonkeyPatch, pauses: list[float]
) -> None:
    slow_down = refusal(429, "slow down")
    with provider(slow_down, slow_down, Answer(events=openai_events.text("hi"))) as served:
        at(served, monkeypatch)
        client = agent(MODEL)
        assert "hi" in client.messages(stream=True).text
    assert pauses == [1.0, 2.0]
    assert client.gate.spent().turns == 1


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("failing", "told"),
    [
        (refusal(401, f"Incorrect API key provided: {KEY}"), "the key for 'openai/gpt-4o' was ref"),
        (refusal(404, "no such model"), "the provider knows no model 'openai/gpt-4o'"),
        (refusal(429, "slow down"), "is rate limited after 6 attempts"),
        (refusal(500, "oh dear"), "gives no usable answer after 3 attempts"),
        (refusal(400, "this model cannot call tools"), "refused the request as malformed (this"),
        (Answer("<html>not JSON"), "gives no usable answer"),
    ],
)
def test_a_model_that_does_not_answer_is_one_clear_error(
    agent: Open,
    monkeypatch: pytest.MonkeyPatch,
    pauses: list[float],
    failing: Answer,
    told: str,
    stream: bool,
) -> None:
    with provider(failing) as served:
        at(served, monkeypatch)
        client = agent(MODEL)
        response = client.messages(stream=stream)
    assert response.status_code == 400
    assert told in response.json()["error"]["message"]
    assert KEY not in response.text
    assert told in str(client.gate.spent().outage)
    assert KEY not in client.trajectory.read_text()
    assert client.gate.spent().turns == 0


@pytest.mark.parametrize(
    ("name", "status", "asked"),
    [("claude-code", 401, 1), ("claude-code", 429, 6), ("pi", 400, 2), (OURSELVES, 401, 2)],
)
def test_an_agent_that_asks_again_and_again_gets_the_same_outage_at_once(
    agent: Open, monkeypatch: pytest.MonkeyPatch, pauses: list[float],
    name: str, status: int, asked: int,
) -> None:  # fmt: skip
    """Another request may be one that the provider takes; and the planner may come back later."""
    with provider(refusal(status, "no")) as served:
        at(served, monkeypatch)
        client = agent(MODEL, name=name)
        first, second = client.chat(), client.chat()
    assert first.json() == second.json()
    assert len(served.requests) == asked


def test_an_agent_that_is_only_refused_is_given_up_and_fills_no_disk(
    agent: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody pays for such requests: neither turns nor money would ever end them."""
    with provider(refusal(400, "no")) as served:
        at(served, monkeypatch)
        client = agent(MODEL)
        for _ in range(REFUSED_IN_A_ROW + 2):
            assert "refused the request as malformed" in client.chat("x" * 500_000).text
    assert len(served.requests) == REFUSED_IN_A_ROW
    (asked, *_) = client.events("request")
    (message,) = cast("list[dict[str, object]]", asked["messages"])
    assert (message["size"], message["content"]) == (500_000, "x" * 20_000)
    assert client.trajectory.stat().st_size < 500_000


@pytest.mark.parametrize("path", ["messages", "chat"])
def test_a_stream_that_breaks_off_is_told_and_counted(
    agent: Open, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    with provider(Answer(events=openai_events.begun("one ", "two " * 1000))) as served:
        at(served, monkeypatch)
        client = agent(MODEL)
        ask = client.messages if path == "messages" else client.chat
        last = read_events(ask(stream=True))[-1]
    assert "the answer of 'openai/gpt-4o' broke off" in str(last["error"])
    spent = client.gate.spent()
    assert spent.usage.output == 1001
    assert spent.usage.cost_usd > 0
    assert "broke off" in str(spent.outage)
    (broken,) = client.events("broken")
    assert broken["size"] == 4004


def test_silence_is_timed_out(
    agent: Open, monkeypatch: pytest.MonkeyPatch, pauses: list[float]
) -> None:
    from providers import wire_anthropic_request

    monkeypatch.setattr(wire_anthropic_request, "SILENCE_S", 1.0)
    hung = Answer(events=openai_events.text("late"), pause_s=3)
    with provider(hung) as served:
        at(served, monkeypatch)
        began = time.monotonic()
        response = agent(MODEL).messages(stream=True)
    assert response.status_code == 400
    assert "did not answer in time" in response.json()["error"]["message"]
    assert time.monotonic() - began < 8


def test_an_agent_that_hangs_up_is_counted(agent: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    with provider(ENDLESS) as served:
        at(served, monkeypatch)
        client = agent(MODEL)
        with begun(client):
            assert client.gate.spent().turns == 0
        settled = client.gate.settled()
        assert (settled.turns, settled.usage.output > 0) == (1, True)
        deadline = time.monotonic() + 5
        while not client.events("broken") and time.monotonic() < deadline:
            time.sleep(0.05)
    assert client.events("broken")[0]["why"] == "the agent hung up"


@pytest.mark.parametrize("stream", [True, False])
def test_a_conversation_too_long_is_an_error_that_agents_know(
    agent: Open, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    """They shorten it, or fail with it; an empty answer would be a success."""
    with provider(refusal(400, "This model's maximum context length is 128000 tokens.")) as served:
        at(served, monkeypatch)
        client = agent(MODEL)
        response, chat = client.messages(stream=stream), client.chat()
    assert response.status_code == 400
    error = response.json()["error"]
    assert error["type"] == "invalid_request_error"
    assert error["message"].startswith("prompt is too long: ")
    assert chat.json()["choices"][0]["finish_reason"] == "context_window"
    assert client.gate.spent().outage is None
    assert client.events("reply")[0]["stop_reason"] == "context_window"


def test_turns_under_way_are_turns(agent: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    with provider(ENDLESS) as served:
        at(served, monkeypatch)
        client = agent(MODEL, turns=1)
        with begun(client):
            assert "turn limit of 1 reached" in client.messages(stream=True).text
    assert len(served.requests) == 1


def test_an_agent_asks_so_often_at_once_and_no_more(
    agent: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    with provider(ENDLESS) as served, ExitStack() as others:
        at(served, monkeypatch)
        client = agent(MODEL)
        with begun(client):
            for _ in range(AT_ONCE - 1):
                others.enter_context(begun(client))
            messages, chat = client.messages(), client.chat()
            assert [messages.status_code, chat.status_code] == [429, 429]
            assert messages.headers["x-should-retry"] == "true"
            for refused in (messages, chat):
                assert refused.json()["error"]["type"] == "rate_limit_error"
        deadline = time.monotonic() + 5
        while not client.events("broken") and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.05)
        with begun(client):
            pass
    assert client.gate.spent().stopped is None


def test_a_price_of_ones_own_goes_before_the_map(
    agent: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    with provider(Answer(events=openai_events.text("hi"))) as served:
        at(served, monkeypatch)
        client = agent(MODEL, prices={MODEL: {"input": 1000.0}})
        client.messages(stream=True)
    assert client.gate.spent().usage.cost_usd == pytest.approx(1.0)


@pytest.mark.parametrize("stream", [True, False])
def test_a_model_that_nobody_can_price_is_counted(
    agent: Open, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    """Its name is known of another provider: behind an address of one's own it may be anything."""
    with provider(
        Answer(events=openai_events.text("hi")) if stream else openai_answer({"content": "hi"})
    ) as served:
        at(served, monkeypatch)
        client = agent("openai/deepseek-chat", turns=1)
        assert "hi" in client.messages(stream=stream).text
        assert client.messages(stream=stream).status_code == 400
    assert (client.gate.spent().turns, client.gate.spent().usage.cost_usd) == (1, 0.0)
    assert len(client.events("reply")) == 1


def test_a_gateway_with_a_fault_is_an_outage() -> None:
    with provider(Answer("Internal Server Error", status=500)) as served:
        broken = Gateway(served.url, "x")
        with pytest.raises(ModelUnavailable, match=r"the gateway failed \(500 .*gateway\.log"):
            broken.check_model(MODEL)
        broken.close()


def test_what_a_model_may_say_at_most_is_not_asked_past(
    agent: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    with provider(Answer(events=openai_events.text("hi"))) as served:
        at(served, monkeypatch)
        agent(MODEL).messages(stream=True, max_tokens=64_000, thinking={"type": "enabled"})
    assert served.requests[0]["max_tokens"] == 16384
    assert "thinking" not in served.requests[0]


def test_ten_megabytes_come_through(agent: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [f"{n:06}" + "x" * 10_000 for n in range(1000)]
    with provider(Answer(events=openai_events.text(*parts))) as served:
        at(served, monkeypatch)
        client = agent(MODEL)
        events = read_events(client.messages(stream=True))
    texts = [e["delta"]["text"] for e in events if e["type"] == "content_block_delta"]  # type: ignore[index]  # plain JSON
    assert "".join(texts) == "".join(parts)
    (reply,) = client.events("reply")
    assert reply["cut"] is True
    assert client.gate.spent().usage.output == 10


def test_a_model_that_repeats_one_chunk_is_stopped(
    agent: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    with provider(Answer(events=openai_events.text(*(["again "] * 500)))) as served:
        at(served, monkeypatch)
        events = read_events(agent(MODEL).messages(stream=True))
    assert "repeating the same chunk" in str(events[-1])
