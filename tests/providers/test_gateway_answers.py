"""Answers and refusals in both wire formats, over real HTTP."""

import pytest

from contracts.chat import ChatRequest, Usage
from contracts.run import DecisionCounts
from contracts.tool import Tool
from tests.support.gateway import ASK, LS, USAGE, Open, Script, read_events

RM = {"id": "c2", "function": {"name": "Bash", "arguments": {"command": "rm -rf ."}}}
BASH = {"name": "Bash", "description": "runs", "input_schema": {"type": "object"}}


def test_messages_returns_a_complete_answer(agent: Open, script: Script) -> None:
    client = agent(script({"content": "look", "tool_calls": [LS], "usage": USAGE}))
    body = client.messages(tools=[BASH]).json()
    assert body["type"] == "message"
    assert body["content"] == [
        {"type": "text", "text": "look"},
        {"type": "tool_use", "id": "c1", "name": "Bash", "input": {"command": "ls"}},
    ]
    assert body["stop_reason"] == "tool_use"
    assert body["usage"] == {
        "input_tokens": 10,
        "output_tokens": 2,
        "cache_read_input_tokens": 3,
        "cache_creation_input_tokens": 4,
    }


def test_messages_are_streamed_as_events(agent: Open, script: Script) -> None:
    client = agent(script({"content": "look", "tool_calls": [LS], "usage": USAGE}))
    response = client.messages(stream=True)
    assert response.headers["content-type"].startswith("text/event-stream")
    events = read_events(response)
    assert [event["type"] for event in events] == [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert events[5]["delta"] == {"type": "input_json_delta", "partial_json": '{"command": "ls"}'}


def test_chat_completions_returns_a_complete_answer(agent: Open, script: Script) -> None:
    client = agent(script({"content": "look", "tool_calls": [LS], "usage": USAGE}))
    body = client.chat().json()
    message = body["choices"][0]["message"]
    assert message["content"] == "look"
    assert message["tool_calls"][0]["function"]["arguments"] == '{"command": "ls"}'
    assert body["usage"]["prompt_tokens"] == 17
    assert body["usage"]["prompt_tokens_details"]["cached_tokens"] == 3


def test_chat_completions_are_streamed(agent: Open, script: Script) -> None:
    client = agent(script({"content": "look", "tool_calls": [LS], "usage": USAGE}))
    response = client.chat(stream=True)
    assert response.text.endswith("data: [DONE]\n\n")
    *chunks, usage = read_events(response)
    deltas = [chunk["choices"][0] for chunk in chunks]  # type: ignore[index]  # plain JSON
    assert deltas[1]["delta"] == {"content": "look"}
    assert deltas[2]["delta"]["tool_calls"][0]["id"] == "c1"
    assert deltas[-1]["finish_reason"] == "tool_calls"
    assert usage["choices"] == []


def test_count_tokens_is_not_a_turn(agent: Open, script: Script) -> None:
    client = agent(script({"content": "x"}))
    turn = {"role": "user", "content": "x" * 4000}
    counted = client.post("/v1/messages/count_tokens?beta=true", {"messages": [turn]}).json()
    assert 1000 <= counted["input_tokens"] <= 1020
    assert client.access.current_usage().turns == 0


def test_an_image_counts_by_its_size_not_by_its_bytes(agent: Open, script: Script) -> None:
    client = agent(script({"content": "x"}))
    source = {"type": "base64", "media_type": "image/png", "data": "A" * 5_000_000}
    turn = {"role": "user", "content": [{"type": "image", "source": source}]}
    counted = client.post("/v1/messages/count_tokens", {"messages": [turn]}).json()
    assert 1600 <= counted["input_tokens"] <= 1620


def test_an_anthropic_conversation_is_recorded_in_our_form(agent: Open, script: Script) -> None:
    client = agent(script({"content": "done"}))
    image = {"type": "base64", "media_type": "image/png", "data": "aGk="}
    turns = [
        {"role": "user", "content": [{"type": "text", "text": "go hunter2"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "tool_use", "id": "c1", "name": "Bash", "input": {"command": "ls"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "c1",
                    "is_error": True,
                    "content": [{"type": "text", "text": "no"}, {"type": "image", "source": image}],
                },
                {"type": "text", "text": "hurry", "cache_control": {"type": "ephemeral"}},
            ],
        },
    ]
    assert client.post("/v1/messages", {"messages": turns, "system": "be brief"}).is_success
    result, request = client.events("result", "request")
    assert (result["call"], result["text"]) == ("c1", "error: no\n[image]")
    assert request["messages"] == [{"role": "user", "content": "hurry\n[image_url]"}]


def test_a_denied_call_becomes_a_refusal_and_the_model_gets_the_reason(
    agent: Open, script: Script
) -> None:
    client = agent(
        script({"tool_calls": [RM, LS]}, {"content": "ok"}), allowed=("read", "shell(ls*)")
    )
    denied, ls = client.messages(tools=[BASH]).json()["content"]
    assert (denied["name"], denied["id"], denied["input"]["call"]) == ("denied", "c2", "Bash")
    assert "this command is not allowed here" in denied["input"]["reason"]
    assert ls["name"] == "Bash"
    results = [
        {"type": "tool_result", "tool_use_id": "c2", "content": "no such tool: denied"},
        {"type": "tool_result", "tool_use_id": "c1", "content": "a.py"},
    ]
    turns = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": [denied, ls]},
        {"role": "user", "content": results},
    ]
    client.post("/v1/messages", {"messages": turns})
    texts = [str(event["text"]) for event in client.events("result")]
    assert texts[0].startswith("denied: this command is not allowed here; allowed: read, shell(ls*")
    assert texts[1] == "a.py"
    assert client.access.current_usage().decisions == DecisionCounts(allowed=1, denied=1)
    verdicts = [(event["call"], event["verdict"]) for event in client.events("decision")]
    assert verdicts == [("c2", "denied"), ("c1", "allowed")]


def test_malformed_arguments_reach_the_agent_as_an_object(agent: Open, script: Script) -> None:
    call = {"function": {"name": "Bash", "arguments": "{oops"}}
    body = agent(script({"tool_calls": [call]})).messages().json()
    assert body["content"][0]["input"] == {"malformed": "{oops"}


def test_arguments_beyond_the_maximum_are_denied(agent: Open, script: Script) -> None:
    call = {"function": {"name": "Write", "arguments": {"content": "x" * 10_000_000}}}
    body = agent(script({"tool_calls": [call], "content": "y" * 10_000_000})).messages().json()
    assert len(body["content"][0]["text"]) == 10_000_000
    assert "more than 4000000 characters" in body["content"][1]["input"]["reason"]


@pytest.mark.parametrize("body", [b"{oops", b"[]", b'{"messages": []}', b'{"messages": "x"}'])
def test_a_malformed_request_is_an_error_message(agent: Open, script: Script, body: bytes) -> None:
    client = agent(script({"content": "x"}))
    for path in ("/v1/messages", "/v1/chat/completions"):
        response = client.http.post(
            path, content=body, headers={"authorization": f"Bearer {client.access.token}"}
        )
        assert response.status_code == 400
        assert "the request is malformed" in response.json()["error"]["message"]


def test_our_client_gets_replies_with_their_cost(agent: Open, script: Script) -> None:
    call = {"id": "c", "function": {"name": "bash", "arguments": "{oops"}}
    client = agent(script({"tool_calls": [call], "usage": USAGE}), name="native")
    tool = Tool(name="bash", description="runs", parameters={"type": "object"})
    request = ChatRequest(model="m", messages=ASK.messages, tools=[tool], max_tokens=9)
    reply = client.access.complete(request)
    assert reply.usage == Usage(input=10, output=2, cache_read=3, cache_write=4, cost_usd=0.004)
    assert reply.message.tool_calls[0].arguments == "{oops"
    assert client.events("request")[0]["tools"] == ["bash"]
