"""Gemini through the real litellm: text, tool calls and token counts."""

import json

import pytest

from tests.support.fake_provider import Answer, provider
from tests.support.gateway import Open, read_events

pytestmark = [
    # litellm asks pydantic in ways that pydantic warns of, at whichever call comes first.
    pytest.mark.filterwarnings("ignore:Accessing the"),
    pytest.mark.filterwarnings("ignore:Item '.*' on TypedDict"),
]

MODEL = "gemini/gemini-2.5-pro"
PARAMETERS = {"type": "object", "properties": {"command": {"type": "string"}}}
TOOLS = [
    {"name": name, "description": "Runs it.", "input_schema": PARAMETERS} for name in ("one", "two")
]
COUNTS = {
    "promptTokenCount": 1000,
    "cachedContentTokenCount": 600,
    "candidatesTokenCount": 10,
    "totalTokenCount": 1010,
}


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", "test-gemini-key-0123456789")


def said(*parts: dict[str, object], finish: str | None = None) -> dict[str, object]:
    candidate = {"content": {"role": "model", "parts": list(parts)}, "index": 0}
    ended = {"finishReason": finish} if finish else {}
    counts = {"usageMetadata": COUNTS} if finish else {}
    return {"candidates": [{**candidate, **ended}], "modelVersion": "gemini-2.5-pro", **counts}


def call(name: str) -> dict[str, object]:
    return {"functionCall": {"name": name, "args": {"command": name}}}


def chunks(*bodies: dict[str, object]) -> Answer:
    return Answer(events=[json.dumps(body) for body in bodies])


def test_a_stream_comes_through(agent: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = chunks(said({"text": "one "}), said({"text": "two"}, finish="STOP"))
    with provider(answer) as served:
        monkeypatch.setenv("GEMINI_API_BASE", served.url)
        client = agent(MODEL)
        events = read_events(client.messages(stream=True))
    texts = [e["delta"]["text"] for e in events if e["type"] == "content_block_delta"]  # type: ignore[index]  # plain JSON
    assert texts == ["one ", "two"]
    usage = client.access.current_usage().usage
    assert (usage.input, usage.cache_read, usage.output) == (400, 600, 10)
    assert usage.cost_usd == pytest.approx(400 * 1.25e-6 + 600 * 1.25e-7 + 10 * 1e-5)
    assert served.requests[0]["contents"] == [{"role": "user", "parts": [{"text": "hello"}]}]


@pytest.mark.parametrize("stream", [True, False])
def test_two_calls_with_one_index_stay_separate(
    agent: Open, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    both = said(call("one"), call("two"), finish="STOP")
    apart = chunks(said(call("one")), said(call("two"), finish="STOP"))
    with provider(apart if stream else Answer(both)) as served:
        monkeypatch.setenv("GEMINI_API_BASE", served.url)
        client = agent(MODEL)
        client.messages(stream=stream, tools=TOOLS)
    (reply,) = client.events("reply")
    calls = reply["message"]["tool_calls"]  # type: ignore[index]  # plain JSON
    assert [json.loads(c["function"]["arguments"]) for c in calls] == [
        {"command": "one"},
        {"command": "two"},
    ]
    assert len({c["id"] for c in calls}) == 2
    declared = served.requests[0]["tools"][0]["function_declarations"]
    assert [function["name"] for function in declared] == ["one", "two"]


def test_a_refused_key_is_one_line_without_the_key(
    agent: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = {"error": {"code": 403, "message": "bad key", "status": "PERMISSION_DENIED"}}
    with provider(Answer(body, 403)) as served:
        monkeypatch.setenv("GEMINI_API_BASE", served.url)
        response = agent(MODEL).messages(stream=True)
    assert "the key for 'gemini/gemini-2.5-pro' was refused" in response.text
    assert "test-gemini-key" not in response.text
