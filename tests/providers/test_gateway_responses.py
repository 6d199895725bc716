"""OpenAI's Responses, asked for by OpenAI's own client."""

import json

import openai
import pytest

from contracts.chat import Usage
from contracts.run import DecisionCounts
from tests.support.gateway import USAGE, AgentClient, Open, Script, read_events

pytestmark = [
    # litellm asks pydantic in ways that pydantic warns of, at whichever call comes first.
    pytest.mark.filterwarnings("ignore:Accessing the"),
    pytest.mark.filterwarnings("ignore:Item '.*' on TypedDict"),
]

LS = {"id": "c1", "function": {"name": "exec_command", "arguments": {"cmd": "ls"}}}
RM = {"id": "c2", "function": {"name": "exec_command", "arguments": {"cmd": "rm -rf ."}}}
FIND = {"id": "c3", "function": {"name": "mcp__harness__playbook_search", "arguments": {}}}
SHELL = {"type": "function", "name": "exec_command", "parameters": {"type": "object"}}
PIXEL = "data:image/png;base64,iVBORw0KGgo="


def codex(client: AgentClient) -> openai.OpenAI:
    url = f"{client.http.base_url}/v1".replace("//v1", "/v1")
    return openai.OpenAI(base_url=url, api_key=client.access.token, max_retries=0)


def test_a_complete_answer_has_text_calls_and_usage(agent: Open, script: Script) -> None:
    client = agent(script({"content": "look", "tool_calls": [LS], "usage": USAGE}), name="codex")
    with codex(client) as ask:
        answer = ask.responses.create(model="any", input="go", tools=[SHELL])  # type: ignore[list-item]  # strict may be left out
    said, called = answer.output
    assert (answer.status, answer.output_text, said.type) == ("completed", "look", "message")
    assert called.type == "function_call"
    assert (called.call_id, called.name) == ("c1", "exec_command")
    assert json.loads(called.arguments) == {"cmd": "ls"}
    assert answer.usage is not None
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (17, 2)
    assert answer.usage.input_tokens_details.cached_tokens == 3
    usage = client.access.current_usage()
    assert usage.usage == Usage(input=10, output=2, cache_read=3, cache_write=4, cost_usd=0.004)
    assert usage.decisions == DecisionCounts(allowed=1)


def test_a_streamed_answer_adds_up_to_the_complete_one(agent: Open, script: Script) -> None:
    client = agent(script({"content": "look", "tool_calls": [LS, FIND]}), name="codex")
    with codex(client) as ask, ask.responses.stream(model="any", input="go") as stream:
        kinds = [event.type.removeprefix("response.") for event in stream]
        final = stream.get_final_response()
    call = ["output_item.added", "function_call_arguments.done", "output_item.done"]
    assert kinds == [
        *("created", "output_item.added", "content_part.added", "output_text.delta"),
        *("output_text.done", "content_part.done", "output_item.done"),
        *(*call, *call, "completed"),
    ]
    assert final.output_text == "look"
    assert [item.type for item in final.output] == ["message", "function_call", "function_call"]


@pytest.mark.parametrize("tool", ["playbook_search", "tracker__get_issue"])
def test_a_tool_of_a_namespace_is_called_by_its_two_names(
    agent: Open, script: Script, tool: str
) -> None:
    find = {"id": "c3", "function": {"name": f"mcp__harness__{tool}", "arguments": {}}}
    allowed = ("playbooks", "mcp(tracker:*)")
    client = agent(script({"tool_calls": [find]}), name="codex", allowed=allowed)
    group = {"type": "namespace", "name": "mcp__harness", "tools": [{**SHELL, "name": "find"}]}
    body = client.post("/v1/responses", {"input": "go", "tools": [group]}).json()
    assert body["output"][0]["namespace"] == "mcp__harness"
    assert body["output"][0]["name"] == tool
    assert client.events("request")[0]["tools"] == ["mcp__harness__find"]


def test_a_denied_call_is_replaced_and_later_restored(agent: Open, script: Script) -> None:
    replies = script({"tool_calls": [RM]}, {"content": "so be it"})
    client = agent(replies, name="codex", allowed=("shell(ls*)",))
    call = client.post("/v1/responses", {"input": "go", "tools": [SHELL]}).json()["output"][0]
    assert call["name"] == "denied"
    result = {"type": "function_call_output", "call_id": "c2", "output": "unsupported call"}
    turn = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"}]}
    client.post("/v1/responses", {"input": [turn, call, result], "stream": True})
    [told] = client.events("result")
    assert str(told["text"]).startswith("denied: this command is not allowed here")


def test_roles_images_and_instructions_reach_the_model(agent: Open, script: Script) -> None:
    client = agent(script({"content": "ok"}), name="codex")
    image = {"type": "input_image", "image_url": PIXEL}
    away = {"type": "input_image", "image_url": "https://evil.example/x.png"}
    turns = [
        {"type": "message", "role": "developer", "content": "be brief"},
        {"type": "message", "role": "user", "content": [image, away]},
        {"type": "reasoning", "summary": [], "encrypted_content": "xyz"},
    ]
    sent = client.post("/v1/responses", {"input": turns, "instructions": "you are codex"})
    assert sent.json()["output"][0]["content"][0]["text"] == "ok"
    asked = str(client.events("request")[0]["messages"])
    assert "be brief" in asked
    assert "you are codex" in asked
    assert "evil.example" not in asked


def test_a_refusal_is_an_error_that_is_not_repeated(agent: Open, script: Script) -> None:
    client = agent(script({"content": "x"}), name="codex", turns=0)
    with codex(client) as ask, pytest.raises(openai.BadRequestError, match="turn limit of 0"):
        ask.responses.create(model="any", input="go")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"input": 3},
        {"input": []},
        {"input": [{}]},
        {"input": [{"type": "function_call"}], "tools": "x"},
        {"input": "go", "tools": [{"type": "namespace", "tools": 3}, 4]},
        {"input": "go", "text": {"format": 3}, "tool_choice": {"type": []}},
        {"input": [{"type": "function_call_output", "output": {"x": []}, "call_id": {}}]},
    ],
)
def test_an_odd_request_is_answered_or_refused_but_breaks_nothing(
    agent: Open, script: Script, body: object
) -> None:
    client = agent(script({"content": "x"}), name="codex")
    refused = client.post("/v1/responses", body)
    assert refused.status_code in (200, 400)
    if refused.status_code == 400:
        assert refused.json()["error"]["message"]


def test_an_answer_that_breaks_off_ends_with_a_failed_response(agent: Open, script: Script) -> None:
    client = agent(
        script({"kind": "broken", "message": {"content": "I see"}, "why": "the line is cut"}),
        name="codex",
    )
    *_, last = read_events(client.post("/v1/responses", {"input": "go", "stream": True}))
    assert last["type"] == "response.failed"
