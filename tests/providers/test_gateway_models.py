"""The gateway with a provider that refuses, is silent or has its own price."""

from collections.abc import Iterator
from typing import cast

import pytest

from contracts.errors import ModelUnavailable
from contracts.model_access import INTERNAL_AGENT
from providers.account import MAX_CONSECUTIVE_FAILURES
from providers.client import Gateway
from tests.support import openai_events
from tests.support.fake_provider import Answer, provider, use_as_openai
from tests.support.gateway import Open, openai_answer
from tests.support.running_gateway import running_gateway
from tests.support.waiting import LONG_S

# litellm asks pydantic in ways that pydantic warns of, at whichever call comes first.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Accessing the"),
    pytest.mark.filterwarnings("ignore:Item '.*' on TypedDict"),
]

KEY = "sk-test-0123456789abcdef"
MODEL = "openai/gpt-4o"


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


@pytest.fixture
def delays() -> list[float]:
    return []


@pytest.fixture
def gateway(delays: list[float]) -> Iterator[Gateway]:
    """A gateway that does not really wait before retries."""
    with running_gateway(sleep=delays.append) as client:
        yield client


def refusal(status: int, message: str) -> Answer:
    return Answer({"error": {"message": message, "type": "x"}}, status)


def test_rate_limits_are_retried_before_the_first_byte(
    agent: Open, monkeypatch: pytest.MonkeyPatch, delays: list[float]
) -> None:
    slow_down = refusal(429, "slow down")
    with provider(slow_down, slow_down, Answer(events=openai_events.text("hi"))) as served:
        use_as_openai(served, monkeypatch)
        client = agent(MODEL)
        assert "hi" in client.messages(stream=True).text
    assert delays == [1.0, 2.0]
    assert client.access.current_usage().turns == 1


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
def test_a_failing_provider_is_one_clear_error(
    agent: Open,
    monkeypatch: pytest.MonkeyPatch,
    delays: list[float],
    failing: Answer,
    told: str,
    stream: bool,
) -> None:
    with provider(failing) as served:
        use_as_openai(served, monkeypatch)
        client = agent(MODEL)
        response = client.messages(stream=stream)
    assert response.status_code == 400
    assert told in response.json()["error"]["message"]
    assert KEY not in response.text
    assert told in str(client.access.current_usage().outage)
    assert KEY not in client.trajectory.read_text()
    assert client.access.current_usage().turns == 0


@pytest.mark.parametrize(
    ("name", "status", "asked"),
    [("claude-code", 401, 1), ("claude-code", 429, 6), ("pi", 400, 2), (INTERNAL_AGENT, 401, 2)],
)
def test_repeated_requests_fail_at_once_after_an_outage(
    agent: Open, monkeypatch: pytest.MonkeyPatch, delays: list[float],
    name: str, status: int, asked: int,
) -> None:  # fmt: skip
    """After 400 another request may succeed, and our own planner may try again later."""
    with provider(refusal(status, "no")) as served:
        use_as_openai(served, monkeypatch)
        client = agent(MODEL, name=name)
        first, second = client.chat(), client.chat()
    assert first.json() == second.json()
    assert len(served.requests) == asked


def test_an_agent_with_only_refused_requests_is_stopped_and_its_record_is_small(
    agent: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refused requests cost nothing, so neither turns nor money would ever end them."""
    with provider(refusal(400, "no")) as served:
        use_as_openai(served, monkeypatch)
        client = agent(MODEL)
        for _ in range(MAX_CONSECUTIVE_FAILURES + 2):
            assert "refused the request as malformed" in client.chat("x" * 500_000).text
    assert len(served.requests) == MAX_CONSECUTIVE_FAILURES
    (asked, *_) = client.events("request")
    (message,) = cast("list[dict[str, object]]", asked["messages"])
    assert (message["size"], message["content"]) == (500_000, "x" * 20_000)
    assert client.trajectory.stat().st_size < 500_000


def test_a_silent_model_times_out(
    agent: Open, monkeypatch: pytest.MonkeyPatch, delays: list[float]
) -> None:
    from providers import wire_anthropic

    monkeypatch.setattr(wire_anthropic, "STREAM_TIMEOUT_S", 1.0)
    hung = Answer(events=openai_events.text("late"), pause_s=LONG_S)
    with provider(hung) as served:
        use_as_openai(served, monkeypatch)
        response = agent(MODEL).messages(stream=True)
    assert response.status_code == 400
    assert "did not answer in time" in response.json()["error"]["message"]


@pytest.mark.parametrize("stream", [True, False])
def test_a_conversation_beyond_the_context_is_an_error_that_agents_recognize(
    agent: Open, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    """Agents shorten the conversation or fail; an empty answer would be a success."""
    with provider(refusal(400, "This model's maximum context length is 128000 tokens.")) as served:
        use_as_openai(served, monkeypatch)
        client = agent(MODEL)
        response, chat = client.messages(stream=stream), client.chat()
    for refused in (response, chat):
        assert refused.status_code == 400
        error = refused.json()["error"]
        assert error["type"] == "invalid_request_error"
        assert error["message"].startswith("prompt is too long: ")
    assert client.access.current_usage().outage is None
    assert client.events("reply")[0]["stop_reason"] == "context_window"


def test_the_users_price_replaces_litellms(agent: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    with provider(Answer(events=openai_events.text("hi"))) as served:
        use_as_openai(served, monkeypatch)
        client = agent(MODEL, prices={MODEL: {"input": 1000.0}})
        client.messages(stream=True)
    assert client.access.current_usage().usage.cost_usd == pytest.approx(1.0)


@pytest.mark.parametrize("stream", [True, False])
def test_answers_of_a_model_without_a_price_are_counted_as_turns(
    agent: Open, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    """litellm knows the name from another provider; at this address it may be any model."""
    with provider(
        Answer(events=openai_events.text("hi")) if stream else openai_answer({"content": "hi"})
    ) as served:
        use_as_openai(served, monkeypatch)
        client = agent("openai/deepseek-chat", turns=1)
        assert "hi" in client.messages(stream=stream).text
        assert client.messages(stream=stream).status_code == 400
    assert (client.access.current_usage().turns, client.access.current_usage().usage.cost_usd) == (
        1,
        0.0,
    )
    assert len(client.events("reply")) == 1


def test_an_internal_error_of_the_gateway_names_its_log() -> None:
    with provider(Answer("Internal Server Error", status=500)) as served:
        broken = Gateway(served.url, "x")
        with pytest.raises(ModelUnavailable, match=r"the gateway failed \(500 .*gateway\.log"):
            broken.check_model(MODEL)
        broken.close()


def test_max_tokens_is_limited_to_the_models_maximum(
    agent: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    with provider(Answer(events=openai_events.text("hi"))) as served:
        use_as_openai(served, monkeypatch)
        agent(MODEL).messages(stream=True, max_tokens=64_000, thinking={"type": "enabled"})
    assert served.requests[0]["max_tokens"] == 16384
    assert "thinking" not in served.requests[0]


@pytest.mark.parametrize(("model", "tokens"), [("openai/gpt-4o", 128_000), ("ollama/qwen3", None)])
def test_an_agent_is_told_the_models_context(agent: Open, model: str, tokens: int | None) -> None:
    assert agent(model).access.context_tokens == tokens
