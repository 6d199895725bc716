"""Runs over real HTTP: tokens, limits and trajectories."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from contracts.errors import ModelUnavailable, OptionInvalid
from contracts.model_access import BUDGET_EXCEEDED, TokenSpec
from providers.account import MAX_CONCURRENT
from providers.client import Gateway
from providers.gateway_api import RunTerms
from providers.trajectory import first_difference
from tests.support.gateway import ASK, LS, USAGE, Open, Script
from tests.support.running_gateway import running_gateway
from tests.support.waiting import LONG_S


def test_an_agents_token_cannot_create_embeddings(agent: Open, script: Script) -> None:
    """Only the host may choose a provider's address and key."""
    client = agent(script({"content": "x"}))
    response = client.post("/v1/embeddings", {"input": ["a"], "harness_api_base": "http://x"})
    assert response.status_code == 403
    assert "for a model that chats" in response.json()["error"]["message"]


def test_a_run_stops_at_its_budget(agent: Open, script: Script) -> None:
    replies = [{"content": str(n), "usage": USAGE} for n in range(9)]
    client = agent(script(*replies), budget_usd=0.01)
    said = [client.messages() for _ in range(5)]
    assert [response.status_code for response in said] == [200, 200, 200, 400, 400]
    error = said[-1].json()["error"]
    assert error["message"] == "budget exceeded: $0.0120 of $0.01, 57 tokens"
    assert said[-1].headers["x-should-retry"] == "false"
    spent = client.access.current_usage()
    assert spent.stopped == error["message"]
    assert spent.turns == 3
    assert spent.usage.cost_usd == pytest.approx(0.012)
    assert (spent.usage.cache_read, spent.usage.cache_write) == (9, 12)
    assert client.access.complete(ASK).stop_reason == BUDGET_EXCEEDED


def test_a_resumed_run_continues_its_script_and_its_budget(agent: Open, script: Script) -> None:
    model = script(*({"content": str(n), "usage": USAGE} for n in range(9)))
    client = agent(model, replies_given={model: 2}, spent_usd=0.007, budget_usd=0.01)
    assert client.messages().json()["content"][0]["text"] == "2"
    assert "budget exceeded: $0.0110 of $0.01" in client.messages().text


def test_a_token_stops_at_its_turn_limit(agent: Open, script: Script) -> None:
    client = agent(script({"content": "a"}, {"content": "b"}, {"content": "c"}), turns=2)
    assert [client.messages().status_code for _ in range(3)] == [200, 200, 400]
    assert str(client.access.current_usage().stopped).startswith("turn limit of 2 reached")


def test_a_request_needs_a_token_of_an_open_run(
    gateway: Gateway, script: Script, tmp_path: Path
) -> None:
    model, http = script({"content": "x"}), httpx.Client(base_url=gateway.url, timeout=LONG_S)
    body = {"messages": [{"role": "user", "content": "x"}]}

    def status(token: str) -> int:
        return http.post("/v1/messages", json=body, headers={"x-api-key": token}).status_code

    with gateway.run(RunTerms(run_id="r9", trajectory=tmp_path / "t")) as open_access:
        with open_access(TokenSpec(node="n", agent="pi", model=model)) as access:
            assert [status(""), status("hrn-guess"), status(access.token)] == [401, 401, 200]
        assert status(access.token) == 401
        with open_access(TokenSpec(node="n", agent="pi", model=model)) as access:
            pass
    with pytest.raises(ModelUnavailable, match="run 'r9' is not open here"):
        open_access(TokenSpec(node="n", agent="pi", model=model)).__enter__()
    http.close()


def test_a_request_without_a_token_is_refused_before_its_body(gateway: Gateway) -> None:
    with gateway.connect() as connection:
        connection.settimeout(LONG_S)
        connection.sendall(
            b"POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: 9999999\r\n\r\n"
        )
        assert b" 401 " in connection.recv(100)


def test_a_token_is_refused_after_its_ttl(agent: Open, script: Script) -> None:
    client = agent(script({"content": "x"}), ttl_s=0.05)
    time.sleep(0.1)
    assert client.messages().status_code == 401


def test_an_agents_token_cannot_use_the_admin_api(agent: Open, script: Script) -> None:
    client = agent(script({"content": "x"}))
    headers = {"authorization": f"Bearer {client.access.token}"}
    for method, path in (("POST", "/admin/runs"), ("DELETE", "/admin/runs/r1")):
        assert client.http.request(method, path, headers=headers).status_code == 403


def test_runs_have_separate_scripts_and_budgets(agent: Open, script: Script) -> None:
    model = script({"content": "one", "usage": USAGE}, {"content": "two"})
    first, second = agent(model, run_id="a", budget_usd=0.001), agent(model, run_id="b")
    assert first.messages().json()["content"][0]["text"] == "one"
    assert first.messages().status_code == 400
    assert second.messages().json()["content"][0]["text"] == "one"
    assert second.access.current_usage().turns == 1


def test_check_model_finds_missing_keys_and_scripts(gateway: Gateway, script: Script) -> None:
    assert gateway.check_model(script({"content": "x"})) is True
    with pytest.raises(ModelUnavailable, match="no key for 'openai/gpt-4o'"):
        gateway.check_model("openai/gpt-4o")
    with pytest.raises(OptionInvalid, match="cannot read scripted model"):
        gateway.check_model("scripted/nowhere.jsonl")


def test_a_stopped_gateway_is_an_outage(tmp_path: Path) -> None:
    with running_gateway() as client:
        url = client.url
    gone = Gateway(url, "x")
    assert gone.open_runs() is None
    with (
        pytest.raises(ModelUnavailable, match="does not answer"),
        gone.run(RunTerms(run_id="r", trajectory=tmp_path / "t")),
    ):
        pass
    gone.close()


def test_trajectories_contain_no_secrets_of_gateway_or_run(agent: Open, script: Script) -> None:
    client = agent(script({"content": "hunter2 and sesame"}), secrets=("sesame",))
    client.messages(f"hunter2 {client.access.token} sesame")
    text = client.trajectory.read_text()
    assert "hunter2" not in text
    assert "sesame" not in text
    assert client.access.token not in text


def test_a_secret_at_the_cut_is_redacted(agent: Open, script: Script) -> None:
    client = agent(script({"content": "ok"}))
    told = {"type": "tool_result", "tool_use_id": "c1", "content": "x" * 3996 + "hunter2"}
    client.post("/v1/messages", {"messages": [{"role": "user", "content": [told]}]})
    (result,) = client.events("result")
    assert str(result["text"]).endswith("x***")


def test_concurrent_requests_are_all_answered_and_counted(agent: Open, script: Script) -> None:
    client = agent(script(*({"content": f"{n:03}", "usage": USAGE} for n in range(200))))
    with ThreadPoolExecutor(MAX_CONCURRENT) as pool:
        said = list(pool.map(lambda n: client.messages(stream=n % 2 == 0).text, range(200)))
    assert all(sum(f"{n:03}" in text for text in said) >= 1 for n in range(200))
    assert client.access.current_usage().turns == 200
    assert client.access.current_usage().usage.input == 2000
    assert len(client.events("reply")) == 200


def test_scripted_models_do_not_need_litellm() -> None:
    import subprocess
    import sys

    code = (
        "import sys, tests.support.running_gateway as g\n"
        "with g.running_gateway() as c: c.check_model('scripted/app/demo/replies.jsonl')\n"
        "sys.exit('litellm' in sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_recorded_reply_has_cost_source_and_latency(agent: Open, script: Script) -> None:
    client = agent(script({"content": "hi", "usage": USAGE}))
    client.messages()
    (reply,) = client.events("reply")
    assert json.loads(json.dumps(reply["usage"]))["cost_usd"] == 0.004
    assert (reply["node"], reply["agent"], reply["stop_reason"]) == ("fix", "claude-code", "stop")
    assert isinstance(reply["latency_ms"], int)


def test_a_replay_ignores_the_named_model(agent: Open, script: Script) -> None:
    first = agent(script({"content": "one", "tool_calls": [LS]}, {"content": "two"}), run_id="a")
    said = [first.messages().json()["content"] for _ in range(2)]
    again = agent("openai/gpt-4o", run_id="b", replay=first.trajectory)
    assert [again.messages().json()["content"] for _ in range(2)] == said
    assert first_difference(first.trajectory, again.trajectory) is None


@pytest.mark.parametrize("stream", [True, False])
def test_a_replayed_answer_breaks_off_again(agent: Open, script: Script, stream: bool) -> None:
    cut = {"message": {"role": "assistant", "content": "I see th"}, "why": "the line was cut"}
    empty = {"kind": "broken", "why": "slow down"}  # the agent asked again: nothing to play
    name = script(empty, {"kind": "broken", **cut}, {"content": "I see that."})
    client = agent("openai/gpt-4o", replay=Path(name.removeprefix("scripted/")))
    first = client.messages(stream=stream)
    assert "the line was cut" in first.text
    assert ("I see th" in first.text) == stream
    assert client.access.current_usage().outage == "the line was cut"
    assert "I see that." in client.messages(stream=stream).text
    assert client.access.current_usage().outage is None
    (broken,) = client.events("broken")
    assert {key: broken[key] for key in cut} == cut


def test_a_relative_script_starts_at_the_callers_folder(
    agent: Open, script: Script, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script({"content": "found"})
    monkeypatch.chdir(tmp_path)
    client = agent("scripted/replies.jsonl")
    monkeypatch.chdir("/")
    assert client.access.complete(ASK).message.content == "found"
