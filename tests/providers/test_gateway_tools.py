"""The gateway's /mcp: what the model asked for passes, anything else is decided about."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from contracts.model_access import GuardBounds, HostTools, TokenSpec
from contracts.tool import Tool, Toolbox, ToolCall
from providers.client import Gateway
from providers.gateway_api import RunTerms
from providers.mcp_endpoint import serve_toolbox
from tests.support.gateway import AgentClient, Script
from tests.support.waiting import LONG_S

PREFIX = "mcp__harness__"
GET = {"id": "c1", "function": {"name": f"{PREFIX}tracker__get_issue", "arguments": {"number": 7}}}
MAKE = {"id": "c1", "function": {"name": f"{PREFIX}tracker__create_issue", "arguments": {"n": 1}}}
BOUNDS = GuardBounds(taint=("mcp:tracker",), effects={"tracker:get_issue": "read"})


class Tracker:
    """Tools that remember their calls."""

    def __init__(self) -> None:
        self.calls: list[ToolCall] = []

    def run(self, call: ToolCall) -> str:
        self.calls.append(call)
        return f"ran {call.name}"

    @property
    def toolbox(self) -> Toolbox:
        names = ("tracker__get_issue", "tracker__create_issue")
        return Toolbox(
            tools=tuple(Tool(name=n, description="", parameters={"type": "object"}) for n in names),
            run=self.run,
            prompt_section=lambda _: "",
            serve=serve_toolbox,
        )


@pytest.fixture
def tracker() -> Tracker:
    return Tracker()


@pytest.fixture
def agent(
    gateway: Gateway, tracker: Tracker, tmp_path: Path, script: Script
) -> Iterator[AgentClient]:
    replies = [{"content": "", "tool_calls": [call]} for call in (GET, MAKE)]
    trajectory = tmp_path / "t.jsonl"
    with ExitStack() as stack:
        endpoint = stack.enter_context(serve_toolbox(tracker.toolbox))
        spec = TokenSpec(
            node="fix",
            agent="claude-code",
            model=script(*replies),
            allowed_tools=("mcp(tracker:*)",),
            bounds=BOUNDS,
            tools=HostTools(endpoint=endpoint, prefix=PREFIX),
        )
        terms = RunTerms(run_id="mcp", trajectory=trajectory)
        access = stack.enter_context(stack.enter_context(gateway.run(terms))(spec))
        http = stack.enter_context(httpx.Client(base_url=gateway.url, timeout=LONG_S))
        yield AgentClient(access, http, trajectory)


def ask(agent: AgentClient, name: str, arguments: object) -> tuple[str, bool]:
    params = {"name": name, "arguments": arguments}
    body = {"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": params}
    answer = agent.post("/mcp", body).json()
    assert answer["id"] == 5
    return answer["result"]["content"][0]["text"], answer["result"]["isError"]


def test_a_call_of_the_model_is_decided_about_once(agent: AgentClient, tracker: Tracker) -> None:
    agent.messages()
    assert ask(agent, "tracker__get_issue", {"number": 7}) == ("ran tracker__get_issue", False)
    assert [call.arguments for call in tracker.calls] == ['{"number": 7}']
    assert [event["call"] for event in agent.events("decision")] == ["c1"]


def test_a_call_that_the_model_did_not_make_is_decided_about_and_recorded(
    agent: AgentClient, tracker: Tracker
) -> None:
    assert ask(agent, "tracker__get_issue", {"number": 8}) == ("ran tracker__get_issue", False)
    text, is_error = ask(agent, "tracker__create_issue", {"n": 1})
    assert text.startswith("denied: the agent would call 'create_issue'")
    assert is_error
    assert [call.name for call in tracker.calls] == ["tracker__get_issue"]
    decisions = [(e["tool"], e["verdict"], e["arguments"]) for e in agent.events("decision")]
    assert decisions == [
        (f"{PREFIX}tracker__get_issue", "allowed", '{"number":8}'),
        (f"{PREFIX}tracker__create_issue", "denied", '{"n":1}'),
    ]
    assert agent.access.current_usage().decisions.denied == 1


def test_a_denied_call_of_the_model_leaves_no_permit(agent: AgentClient, tracker: Tracker) -> None:
    agent.messages()
    agent.messages()
    assert ask(agent, "tracker__create_issue", {"n": 1})[1]
    assert tracker.calls == []


def test_only_offered_tools_are_listed_and_called(agent: AgentClient, tracker: Tracker) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    listed = agent.post("/mcp", body).json()["result"]["tools"]
    assert [tool["name"] for tool in listed] == ["tracker__get_issue", "tracker__create_issue"]
    assert ask(agent, "other__tool", {})[0].startswith("denied: ")
    assert tracker.calls == []


@pytest.mark.parametrize("body", [[], "x", [{"method": "tools/call"}], {"method": 3}])
def test_what_is_no_message_is_refused(agent: AgentClient, body: object) -> None:
    answer = agent.post("/mcp", body)
    assert answer.status_code == 400
    assert "malformed" in json.dumps(answer.json())


def test_a_token_without_tools_and_a_wrong_token_open_nothing(
    gateway: Gateway, agent: AgentClient, script: Script, tmp_path: Path
) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    assert agent.post("/mcp", body, token="hrn-wrong").status_code == 401
    terms = RunTerms(run_id="other", trajectory=tmp_path / "o.jsonl")
    spec = TokenSpec(node="fix", agent="pi", model=script({"content": "x"}))
    with gateway.run(terms) as open_gate, open_gate(spec) as access:
        assert agent.post("/mcp", body, token=access.token).status_code == 404
