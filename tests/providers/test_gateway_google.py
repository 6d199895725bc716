"""Google's generateContent, asked for as the shipped `gemini` asks (recorded from version 0.61)."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from contracts.chat import Usage
from contracts.run import DecisionCounts
from tests.support import openai_events
from tests.support.fake_provider import Answer, provider
from tests.support.gateway import USAGE, AgentClient, Open, Script, openai_answer, read_events

pytestmark = [
    # litellm asks pydantic in ways that pydantic warns of, at whichever call comes first.
    pytest.mark.filterwarnings("ignore:Accessing the"),
    pytest.mark.filterwarnings("ignore:Item '.*' on TypedDict"),
]

NAME = "run_shell_command"
LS = {"id": "c1", "function": {"name": NAME, "arguments": {"command": "ls"}}}
RM = {"id": "c2", "function": {"name": NAME, "arguments": {"command": "rm -rf ."}}}
SHELL = {
    "name": NAME,
    "description": "Runs it.",
    "parametersJsonSchema": {"type": "object", "properties": {"command": {"type": "string"}}},
}
PYTHON_SHELL = {"name": NAME, "parameters": {"type": "OBJECT", "properties": {}}}
"""As Google's older schemas have it."""
SIGNED = {"thoughtSignature": "skip_thought_signature_validator"}


def called(number: str | None, command: str) -> dict[str, object]:
    call = {"name": NAME, "args": {"command": command}}
    return {"functionCall": {**call, "id": number} if number else call}


def result(number: str | None, **response: object) -> dict[str, object]:
    body = {"name": NAME, "response": response}
    return {"functionResponse": {**body, "id": number} if number else body}


def said(role: str, *parts: Mapping[str, object]) -> dict[str, object]:
    return {"role": role, "parts": list(parts)}


def request(*contents: dict[str, object], **more: object) -> dict[str, object]:
    """A request with the options that gemini sends."""
    config = {
        "temperature": 1,
        "topP": 0.95,
        "topK": 64,
        "thinkingConfig": {"includeThoughts": True, "thinkingBudget": 8192},
    }
    asked = contents or (said("user", {"text": "<session_context>"}, {"text": "go"}),)
    return {"contents": list(asked), "generationConfig": config, **more}


def ask(client: AgentClient, body: object, *, stream: bool = False) -> list[dict[str, object]]:
    method = "streamGenerateContent?alt=sse" if stream else "generateContent"
    response = client.post(f"/v1beta/models/gemini-2.5-pro:{method}", body)
    assert response.is_success, response.text
    return read_events(response) if stream else [response.json()]


def candidate(answer: dict[str, Any]) -> dict[str, Any]:
    [only] = answer["candidates"]
    return dict(only)


def parts(answer: dict[str, object]) -> list[dict[str, object]]:
    return list(candidate(answer)["content"]["parts"])


def finish(answer: dict[str, object]) -> object:
    return candidate(answer)["finishReason"]


def test_a_complete_answer_has_text_calls_and_usage(agent: Open, script: Script) -> None:
    client = agent(script({"content": "look", "tool_calls": [LS], "usage": USAGE}), name="gemini")
    [answer] = ask(client, request(tools=[{"functionDeclarations": [SHELL]}]))
    assert parts(answer) == [{"text": "look"}, called("c1", "ls")]
    assert finish(answer) == "STOP"
    assert answer["usageMetadata"] == {
        "promptTokenCount": 17,
        "cachedContentTokenCount": 3,
        "candidatesTokenCount": 2,
        "totalTokenCount": 19,
    }
    usage = client.access.current_usage()
    assert usage.usage == Usage(input=10, output=2, cache_read=3, cache_write=4, cost_usd=0.004)
    assert usage.decisions == DecisionCounts(allowed=1)


def test_a_streamed_answer_adds_up_to_the_complete_one(agent: Open, script: Script) -> None:
    client = agent(script({"content": "look", "tool_calls": [LS], "usage": USAGE}), name="gemini")
    *begun, last = ask(client, request(), stream=True)
    assert [part for event in begun for part in parts(event)] == [
        {"text": "look"},
        called("c1", "ls"),
    ]
    assert (parts(last), finish(last)) == ([{"text": ""}], "STOP")
    assert last["usageMetadata"]["totalTokenCount"] == 19  # type: ignore[index]  # plain JSON


def test_any_providers_model_gets_the_conversation(
    agent: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789abcdef")
    conversation = [
        said("user", {"text": "<session_context>"}, {"text": "go"}),
        said("model", {"text": "hm", "thought": True}, {"text": "I look."}, called("c1", "ls")),
        said("user", result("c1", output="a.py"), {"text": "hurry"}),
        said("model", {**called("c2", "cat a.py"), **SIGNED}, called("c3", "cat b.py")),
        said("user", result("c2", output="x = 1"), result("c3", error="no such file")),
    ]
    with provider(Answer(events=openai_events.text("one ", "two"))) as served:
        monkeypatch.setenv("OPENAI_API_BASE", served.url)
        client = agent("openai/gpt-4o", name="gemini")
        body = request(
            *conversation,
            systemInstruction=said("user", {"text": "be brief"}),
            tools=[{"functionDeclarations": [SHELL]}],
        )
        events = ask(client, body, stream=True)
    assert [part["text"] for event in events for part in parts(event)] == ["one ", "two", ""]
    [sent] = served.requests
    calls = [call for message in sent["messages"] for call in message.get("tool_calls", ())]
    assert [call["id"] for call in calls] == ["c1", "c2", "c3"]
    assert json.loads(calls[1]["function"]["arguments"]) == {"command": "cat a.py"}
    assert [(one["role"], one.get("content")) for one in sent["messages"]] == [
        ("system", "be brief"),
        ("user", [{"type": "text", "text": "<session_context>"}, {"type": "text", "text": "go"}]),
        ("assistant", "I look."),
        ("tool", "a.py"),
        ("user", [{"type": "text", "text": "hurry"}]),
        ("assistant", None),
        ("tool", "x = 1"),
        ("tool", "error: no such file"),
    ]
    [tool] = sent["tools"]
    assert tool["function"]["parameters"] == SHELL["parametersJsonSchema"]
    assert (sent["temperature"], "top_p" in sent) == (1, False)


def test_options_of_google_are_those_of_the_model(
    agent: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789abcdef")
    schema = {"type": "OBJECT", "properties": {"ok": {"type": "BOOLEAN"}}, "required": ["ok"]}
    config = {
        "maxOutputTokens": 50,
        "stopSequences": ["END"],
        "responseMimeType": "application/json",
        "responseSchema": schema,
    }
    with provider(openai_answer({"content": '{"ok": true}'})) as served:
        monkeypatch.setenv("OPENAI_API_BASE", served.url)
        body = request(
            tools=[{"functionDeclarations": [PYTHON_SHELL]}, {"googleSearch": {}}],
            toolConfig={"functionCallingConfig": {"mode": "ANY"}},
        )
        [answer] = ask(agent("openai/gpt-4o", name="gemini"), {**body, "generationConfig": config})
    assert parts(answer) == [{"text": '{"ok": true}'}]
    [sent] = served.requests
    assert (sent["max_tokens"], sent["stop"], sent["tool_choice"]) == (50, ["END"], "required")
    assert [tool["function"]["parameters"]["type"] for tool in sent["tools"]] == ["object"]
    assert sent["response_format"]["json_schema"]["schema"]["properties"]["ok"] == {
        "type": "boolean"
    }


def test_calls_without_ids_and_their_results_belong_together(agent: Open, script: Script) -> None:
    client = agent(script({"content": "ok"}), name="gemini")
    body = request(
        said("user", {"text": "go"}),
        said("model", called(None, "ls"), called(None, "pwd")),
        said("function", result(None, output="a.py"), result(None, files=["b.py"])),
    )
    ask(client, body)
    told = [(event["call"], event["text"]) for event in client.events("result")]
    assert told == [(f"{NAME}-1", "a.py"), (f"{NAME}-2", '{"files": ["b.py"]}')]


def test_a_denied_call_is_replaced_and_later_restored(agent: Open, script: Script) -> None:
    replies = script({"tool_calls": [RM]}, {"content": "so be it"})
    client = agent(replies, name="gemini", allowed=("shell(ls*)",))
    [denied] = parts(ask(client, request())[0])
    assert denied["functionCall"]["name"] == "denied"  # type: ignore[index]  # plain JSON
    told = {"name": "denied", "id": "c2", "response": {"error": 'Tool "denied" not found'}}
    body = request(
        said("user", {"text": "go"}),
        said("model", denied),
        said("user", {"functionResponse": told}),
    )
    ask(client, body, stream=True)
    [event] = client.events("result")
    assert str(event["text"]).startswith("denied: this command is not allowed here")


def test_images_reach_the_model_and_addresses_do_not(agent: Open, script: Script) -> None:
    client = agent(script({"content": "ok"}), name="gemini")
    pixel = {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}
    seen = result("c1", output="read")
    seen["functionResponse"]["parts"] = [pixel]  # type: ignore[index]  # plain JSON
    away = {"fileData": {"fileUri": "https://evil.example/x.png", "mimeType": "image/png"}}
    paper = {"inlineData": {"mimeType": "application/pdf", "data": "aGk="}}
    ask(client, request(said("model", called("c1", "ls")), said("user", seen, away, paper, pixel)))
    [asked] = client.events("request")
    assert asked["messages"] == [
        {
            "role": "user",
            "content": "[fileData that this model cannot be shown]\n"
            "[application/pdf that this model cannot be shown]\n[image_url]\n[image_url]",
        }
    ]


@pytest.mark.parametrize(
    ("reason", "told"), [("stop", "STOP"), ("length", "MAX_TOKENS"), ("content_filter", "SAFETY")]
)
def test_the_reason_of_an_end_is_googles(
    agent: Open, monkeypatch: pytest.MonkeyPatch, reason: str, told: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789abcdef")
    answer = openai_answer({"content": "So"})
    answer.body["choices"][0]["finish_reason"] = reason  # type: ignore[index]  # plain JSON
    with provider(answer) as served:
        monkeypatch.setenv("OPENAI_API_BASE", served.url)
        [body] = ask(agent("openai/gpt-4o", name="gemini"), request())
    assert finish(body) == told


def test_tokens_are_counted_without_a_turn(agent: Open, script: Script) -> None:
    client = agent(script({"content": "x"}), name="gemini")
    body = {"contents": [said("user", {"text": "x" * 4000})]}
    counted = client.post("/v1beta/models/gemini-2.5-pro:countTokens", body).json()
    assert 1000 <= counted["totalTokens"] <= 1020
    assert client.access.current_usage().turns == 0


@pytest.mark.parametrize(
    ("turns", "token", "code", "status"),
    [(0, None, 400, "INVALID_ARGUMENT"), (9, "nonsense", 401, "UNAUTHENTICATED")],
)
def test_a_refusal_has_googles_form(
    agent: Open, script: Script, turns: int, token: str | None, code: int, status: str
) -> None:
    client = agent(script({"content": "x"}), name="gemini", turns=turns)
    headers = {"x-goog-api-key": token or client.access.token}
    path = "/v1beta/models/m:streamGenerateContent?alt=sse"
    refused = client.http.post(path, json=request(), headers=headers)
    error = refused.json()["error"]
    assert (refused.status_code, error["code"], error["status"]) == (code, code, status)
    assert error["message"]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"contents": []},
        {"contents": "go"},
        {"contents": [{"role": "wizard", "parts": []}]},
        {"contents": [{"parts": [{}, {"functionCall": 3}, {"functionResponse": {"id": []}}]}]},
        {"contents": [{"parts": [{"text": {"a": 1}}, {"inlineData": "x"}]}], "tools": [{"x": 1}]},
        {"contents": [{"parts": []}], "tools": [{"functionDeclarations": 3}]},
        {"contents": [{"parts": []}], "toolConfig": {"functionCallingConfig": 3}},
        {"contents": [{"parts": []}], "generationConfig": {"responseSchema": 3, "temperature": []}},
        {"contents": [{"role": "model", "parts": [{"functionCall": {"args": 3}}]}]},
    ],
)
def test_an_odd_request_is_answered_or_refused_but_breaks_nothing(
    agent: Open, script: Script, body: object
) -> None:
    client = agent(script({"content": "x"}), name="gemini")
    answer = client.post("/v1beta/models/m:generateContent", body)
    assert answer.status_code in (200, 400)
    if answer.status_code == 400:
        assert answer.json()["error"]["message"]


def test_an_answer_that_breaks_off_ends_with_an_error(agent: Open, script: Script) -> None:
    broken = {"kind": "broken", "message": {"content": "I see"}, "why": "the line is cut"}
    client = agent(script(broken), name="gemini")
    first, last = ask(client, request(), stream=True)
    assert parts(first) == [{"text": "I see"}]
    assert last["error"]["status"] == "INTERNAL"  # type: ignore[index]  # plain JSON
