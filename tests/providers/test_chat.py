"""`call_model` with a real HTTP server on loopback, through the real litellm."""

import socket
import subprocess
import sys
import time
from email.utils import formatdate
from pathlib import Path

import pytest

from contracts.chat import ChatRequest, Message, Reply
from contracts.errors import ModelUnavailable
from contracts.tool import Tool, ToolCall
from tests.support.direct import complete
from tests.support.fake_provider import Answer, provider
from tests.support.gateway import openai_answer

KEY = "sk-test-0123456789abcdef"
HELLO = Message(role="user", content="hello")
BASH = Tool(
    name="bash",
    description="runs",
    parameters={"type": "object", "properties": {"command": {"type": "string"}}},
)


def error(status: int, message: str, **headers: str) -> Answer:
    return Answer({"error": {"message": message, "type": "x"}}, status, headers)


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)


@pytest.fixture
def delays() -> list[float]:
    return []


def ask_openai(
    monkeypatch: pytest.MonkeyPatch, url: str, delays: list[float], timeout_s: float = 20
) -> Reply:
    monkeypatch.setenv("OPENAI_API_BASE", url)
    request = ChatRequest(
        model="openai/gpt-4o", messages=[HELLO], timeout_s=timeout_s, tools=[BASH]
    )
    return complete(request, sleep=delays.append)


def test_text_usage_and_cost_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    with provider(openai_answer({"content": "hi"})) as served:
        monkeypatch.setenv("OPENAI_API_BASE", served.url)
        reply = complete(ChatRequest(model="openai/gpt-4o", messages=[HELLO]))
    assert reply.message == Message(role="assistant", content="hi")
    assert (reply.usage.input, reply.usage.cache_read, reply.usage.output) == (400, 600, 10)
    assert reply.usage.cost_usd == pytest.approx(400 * 2.5e-6 + 600 * 1.25e-6 + 10 * 1e-5)
    assert reply.stop_reason == "stop"


def test_tool_calls_go_out_and_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": "{oops"}}
    earlier = ToolCall(id="c0", name="bash", arguments='{"command": "ls"}')
    with provider(openai_answer({"tool_calls": [call]})) as served:
        monkeypatch.setenv("OPENAI_API_BASE", served.url)
        reply = complete(
            ChatRequest(
                model="openai/gpt-4o",
                messages=[
                    HELLO,
                    Message(role="assistant", tool_calls=(earlier,)),
                    Message(role="tool", content="a.py", tool_call_id="c0"),
                ],
                tools=[BASH],
            )
        )
    assert reply.message.tool_calls == (ToolCall(id="c1", name="bash", arguments="{oops"),)
    assert reply.stop_reason == "tool_calls"
    sent = served.requests[0]
    assert sent["messages"][1]["tool_calls"][0]["function"]["name"] == "bash"
    assert sent["messages"][2] == {"role": "tool", "content": "a.py", "tool_call_id": "c0"}
    assert sent["tools"][0]["function"]["parameters"] == BASH.parameters


def test_anthropic_prompts_are_cached_and_cache_tokens_counted_separately(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answer = Answer(
        {
            "id": "m",
            "type": "message",
            "role": "assistant",
            "model": "claude-sonnet-4-5",
            "content": [
                {"type": "text", "text": "look"},
                {"type": "tool_use", "id": "t1", "name": "bash", "input": {"command": "ls"}},
            ],
            "stop_reason": "tool_use",
            "usage": {
                "input_tokens": 100,
                "output_tokens": 20,
                "cache_read_input_tokens": 3000,
                "cache_creation_input_tokens": 400,
            },
        }
    )
    with provider(answer) as served:
        monkeypatch.setenv("ANTHROPIC_API_BASE", served.url)
        reply = complete(
            ChatRequest(
                model="anthropic/claude-sonnet-4-5",
                messages=[Message(role="system", content="be brief"), HELLO],
                tools=[BASH],
            )
        )
    usage = reply.usage
    assert (usage.input, usage.output) == (100, 20)
    assert (usage.cache_read, usage.cache_write) == (3000, 400)
    assert usage.cost_usd == pytest.approx(100 * 3e-6 + 20 * 15e-6 + 3000 * 3e-7 + 400 * 3.75e-6)
    assert reply.message.tool_calls == (
        ToolCall(id="t1", name="bash", arguments='{"command": "ls"}'),
    )
    assert "cache_control" in served.requests[0]["system"][0]
    assert "cache_control" in served.requests[0]["messages"][-1]["content"][-1]


def test_a_refused_key_is_one_line_without_the_key(
    monkeypatch: pytest.MonkeyPatch, delays: list[float]
) -> None:
    refusal = error(401, f"Incorrect API key provided: {KEY}.")
    with provider(refusal) as served, pytest.raises(ModelUnavailable) as caught:
        ask_openai(monkeypatch, served.url, delays)
    assert "the key for 'openai/gpt-4o' was refused" in str(caught.value)
    assert KEY not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert delays == []


def test_an_unknown_model_is_named_in_the_error(
    monkeypatch: pytest.MonkeyPatch, delays: list[float]
) -> None:
    with (
        provider(error(404, "The model `gpt-4o` does not exist")) as served,
        pytest.raises(ModelUnavailable, match="knows no model 'openai/gpt-4o'"),
    ):
        ask_openai(monkeypatch, served.url, delays)


def test_a_rate_limit_is_retried_after_1_and_2_seconds(
    monkeypatch: pytest.MonkeyPatch, delays: list[float]
) -> None:
    slow_down = error(429, "slow down")
    with provider(slow_down, slow_down, openai_answer({"content": "hi"})) as served:
        ask_openai(monkeypatch, served.url, delays)
    assert delays == [1.0, 2.0]


def test_retry_after_is_obeyed(monkeypatch: pytest.MonkeyPatch, delays: list[float]) -> None:
    later = error(429, "slow down", **{"retry-after": "7"})
    with provider(later, openai_answer({"content": "hi"})) as served:
        ask_openai(monkeypatch, served.url, delays)
    assert delays == [7.0]


def test_retry_after_may_be_a_date(monkeypatch: pytest.MonkeyPatch, delays: list[float]) -> None:
    moment = formatdate(time.time() + 300, usegmt=True)
    with provider(
        error(503, "away", **{"retry-after": moment}), openai_answer({"content": "hi"})
    ) as served:
        ask_openai(monkeypatch, served.url, delays, timeout_s=600)
    assert [200 < delay_s <= 300 for delay_s in delays] == [True]


def test_a_permanent_rate_limit_ends_after_6_attempts(
    monkeypatch: pytest.MonkeyPatch, delays: list[float]
) -> None:
    with (
        provider(error(429, "slow down", **{"retry-after": "0"})) as served,
        pytest.raises(ModelUnavailable, match="rate limited after 6 attempts"),
    ):
        ask_openai(monkeypatch, served.url, delays)
    assert len(served.requests) == 6


def test_no_retry_goes_beyond_the_timeout_of_the_request(
    monkeypatch: pytest.MonkeyPatch, delays: list[float]
) -> None:
    with (
        provider(error(429, "slow down", **{"retry-after": "50"})) as served,
        pytest.raises(ModelUnavailable, match="rate limited"),
    ):
        ask_openai(monkeypatch, served.url, delays)
    assert delays == []


@pytest.mark.parametrize(
    "body", ["<html>garbage</html>", "", {"choices": []}, {"choices": [{"message": None}]}]
)
def test_garbage_is_an_unusable_answer(
    monkeypatch: pytest.MonkeyPatch, delays: list[float], body: object
) -> None:
    with (
        provider(Answer(body)) as served,
        pytest.raises(ModelUnavailable, match="gives no usable answer"),
    ):
        ask_openai(monkeypatch, served.url, delays)


def test_a_refused_connection_is_an_outage(
    monkeypatch: pytest.MonkeyPatch, delays: list[float]
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(ModelUnavailable, match="gives no usable answer after 3 attempts"):
        ask_openai(monkeypatch, f"http://127.0.0.1:{port}", delays)


def test_a_conversation_beyond_the_context_is_an_empty_reply_with_a_stop_reason(
    monkeypatch: pytest.MonkeyPatch, delays: list[float]
) -> None:
    body = {
        "error": {
            "message": "This model's maximum context length is 128000 tokens.",
            "type": "invalid_request_error",
            "code": "context_length_exceeded",
        }
    }
    with provider(Answer(body, 400)) as served:
        monkeypatch.setenv("OPENAI_API_BASE", served.url)
        reply = complete(ChatRequest(model="openai/gpt-4o", messages=[HELLO]))
    assert reply.stop_reason == "context_window"
    assert reply.message.content == ""


def test_an_unknown_provider_is_one_line() -> None:
    with pytest.raises(ModelUnavailable) as caught:
        complete(ChatRequest(model="frobnicate/x", messages=[HELLO]))
    assert "\n" not in str(caught.value)


def test_litellm_prints_nothing(
    monkeypatch: pytest.MonkeyPatch, delays: list[float], capfd: pytest.CaptureFixture[str]
) -> None:
    with provider(error(500, "oops")) as served, pytest.raises(ModelUnavailable):
        ask_openai(monkeypatch, served.url, delays)
    printed = capfd.readouterr()
    assert printed.out + printed.err == ""


def test_a_scripted_model_costs_no_import_of_litellm(tmp_path: Path) -> None:
    script = tmp_path / "replies.jsonl"
    script.write_text('{"content": "done"}\n')
    code = (
        "import sys\n"
        "from providers.call_model import RunModels\n"
        "from providers.models import check_model\n"
        "from providers.protocol import ModelRequest, collect\n"
        f"model = 'scripted/{script}'\n"
        "check_model(model, {})\n"
        "message, _ = collect(RunModels().call([model], ModelRequest(messages=[])).parts)\n"
        "print(message.content)\n"
        "print('litellm' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["done", "False"]
