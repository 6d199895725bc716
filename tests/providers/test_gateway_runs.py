"""Runs at the gateway over real HTTP: who may ask, how much, and what is written down."""

import json
import stat
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import httpx
import pytest

from contracts.errors import ModelUnavailable, OptionInvalid
from contracts.model_access import BUDGET_EXCEEDED, TokenSpec
from providers import gateway_admin, litellm_setup
from providers.account import MAX_CONCURRENT
from providers.client import Gateway
from providers.read_trajectory import first_difference
from providers.run_account import RunTerms
from tests.support.gateway import ASK, LS, USAGE, Open, Script
from tests.support.running_gateway import running_gateway
from tests.support.waiting import LONG_S


@pytest.fixture
def slow_import(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Importing litellm ends when this is set."""
    over = threading.Event()

    def slow() -> ModuleType:
        over.wait()
        return litellm_setup

    monkeypatch.setattr(litellm_setup, "litellm", slow)
    monkeypatch.setattr(gateway_admin, "LOAD_ANSWER_S", 0.01)
    litellm_setup._import.cache_clear()
    yield over
    litellm_setup._import.cache_clear()


def test_the_token_of_an_agent_makes_no_vectors(agent: Open, script: Script) -> None:
    """Whoever may say where to ask and with which key, is the host."""
    client = agent(script({"content": "x"}))
    response = client.post("/v1/embeddings", {"input": ["a"], "harness_api_base": "http://x"})
    assert response.status_code == 403
    assert "for a model that chats" in response.json()["error"]["message"]


def test_a_run_spends_its_budget_and_no_more(agent: Open, script: Script) -> None:
    replies = [{"content": str(n), "usage": USAGE} for n in range(9)]
    client = agent(script(*replies), budget_usd=0.01)
    said = [client.messages() for _ in range(5)]
    assert [response.status_code for response in said] == [200, 200, 200, 400, 400]
    error = said[-1].json()["error"]
    assert error["message"] == "budget exceeded: $0.0120 of $0.01, 57 tokens"
    assert said[-1].headers["x-should-retry"] == "false"
    spent = client.gate.current_usage()
    assert spent.stopped == error["message"]
    assert spent.turns == 3
    assert spent.usage.cost_usd == pytest.approx(0.012)
    assert (spent.usage.cache_read, spent.usage.cache_write) == (9, 12)
    assert client.gate.complete(ASK).stop_reason == BUDGET_EXCEEDED


def test_a_run_that_goes_on_has_said_and_spent_before(agent: Open, script: Script) -> None:
    model = script(*({"content": str(n), "usage": USAGE} for n in range(9)))
    client = agent(model, said={model: 2}, spent_usd=0.007, budget_usd=0.01)
    assert client.messages().json()["content"][0]["text"] == "2"
    assert "budget exceeded: $0.0110 of $0.01" in client.messages().text


def test_turns_are_a_limit_of_the_token(agent: Open, script: Script) -> None:
    client = agent(script({"content": "a"}, {"content": "b"}, {"content": "c"}), turns=2)
    assert [client.messages().status_code for _ in range(3)] == [200, 200, 400]
    assert str(client.gate.current_usage().stopped).startswith("turn limit of 2 reached")


def test_only_a_token_opens_and_only_while_its_run_lives(
    gateway: Gateway, script: Script, tmp_path: Path
) -> None:
    model, http = script({"content": "x"}), httpx.Client(base_url=gateway.url, timeout=LONG_S)
    body = {"messages": [{"role": "user", "content": "x"}]}

    def status(token: str) -> int:
        return http.post("/v1/messages", json=body, headers={"x-api-key": token}).status_code

    with gateway.run(RunTerms(run_id="r9", trajectory=tmp_path / "t")) as open_gate:
        with open_gate(TokenSpec(node="n", agent="pi", model=model)) as gate:
            assert [status(""), status("hrn-guess"), status(gate.token)] == [401, 401, 200]
        assert status(gate.token) == 401
        with open_gate(TokenSpec(node="n", agent="pi", model=model)) as gate:
            pass
    with pytest.raises(ModelUnavailable, match="run 'r9' is not open here"):
        open_gate(TokenSpec(node="n", agent="pi", model=model)).__enter__()
    http.close()


def test_whoever_has_no_token_is_told_before_the_body(gateway: Gateway) -> None:
    with gateway.connect() as connection:
        connection.settimeout(LONG_S)
        connection.sendall(
            b"POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: 9999999\r\n\r\n"
        )
        assert b" 401 " in connection.recv(100)


def test_a_token_ends_with_its_time(agent: Open, script: Script) -> None:
    client = agent(script({"content": "x"}), ttl_s=0.05)
    time.sleep(0.1)
    assert client.messages().status_code == 401


def test_the_host_side_is_for_the_host(agent: Open, script: Script) -> None:
    client = agent(script({"content": "x"}))
    headers = {"authorization": f"Bearer {client.gate.token}"}
    for method, path in (("POST", "/admin/runs"), ("DELETE", "/admin/runs/r1")):
        assert client.http.request(method, path, headers=headers).status_code == 403


def test_runs_do_not_see_each_other(agent: Open, script: Script) -> None:
    model = script({"content": "one", "usage": USAGE}, {"content": "two"})
    first, second = agent(model, run_id="a", budget_usd=0.001), agent(model, run_id="b")
    assert first.messages().json()["content"][0]["text"] == "one"
    assert first.messages().status_code == 400
    assert second.messages().json()["content"][0]["text"] == "one"
    assert second.gate.current_usage().turns == 1


def test_a_model_that_cannot_answer_is_known_before(gateway: Gateway, script: Script) -> None:
    assert gateway.check_model(script({"content": "x"})) is True
    with pytest.raises(ModelUnavailable, match="no key for 'openai/gpt-4o'"):
        gateway.check_model("openai/gpt-4o")
    with pytest.raises(OptionInvalid, match="cannot read scripted model"):
        gateway.check_model("scripted/nowhere.jsonl")


def test_a_model_is_asked_about_when_the_library_of_providers_is_there_however_late(
    slow_import: threading.Event,
) -> None:
    waits: list[int] = []

    def on_wait() -> None:
        waits.append(1)
        if len(waits) == 3:
            slow_import.set()

    no_key = pytest.raises(ModelUnavailable, match="no key for 'openai/gpt-4o'")
    with running_gateway(watch_loading=lambda: on_wait) as client, no_key:
        client.check_model("openai/gpt-4o")
    assert len(waits) >= 3


def test_whoever_waits_for_the_library_of_providers_may_give_up(
    slow_import: threading.Event,
) -> None:
    def give_up() -> None:
        raise ModelUnavailable("it is stuck")

    with running_gateway(watch_loading=lambda: give_up) as client:
        with pytest.raises(ModelUnavailable, match="it is stuck"):
            client.check_model("openai/gpt-4o")
        slow_import.set()


def test_a_socket_is_for_this_user_only(script: Script, tmp_path: Path) -> None:
    place = tmp_path / "gateway.sock"
    with running_gateway(str(place)) as client:
        assert client.open_runs() is not None
        assert stat.S_IMODE(place.stat().st_mode) == 0o600
        with client.connect() as connection:
            connection.sendall(b"GET /health HTTP/1.0\r\n\r\n")
            assert b"200 OK" in connection.recv(100)


def test_a_gateway_that_is_gone_is_an_outage(tmp_path: Path) -> None:
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


def test_secrets_of_gateway_and_run_are_in_no_trajectory(agent: Open, script: Script) -> None:
    client = agent(script({"content": "hunter2 and sesame"}), secrets=("sesame",))
    client.messages(f"hunter2 {client.gate.token} sesame")
    text = client.trajectory.read_text()
    assert "hunter2" not in text
    assert "sesame" not in text
    assert client.gate.token not in text


def test_a_secret_that_is_cut_through_is_in_no_trajectory(agent: Open, script: Script) -> None:
    client = agent(script({"content": "ok"}))
    told = {"type": "tool_result", "tool_use_id": "c1", "content": "x" * 3996 + "hunter2"}
    client.post("/v1/messages", {"messages": [{"role": "user", "content": [told]}]})
    (result,) = client.events("result")
    assert str(result["text"]).endswith("x***")


def test_many_agents_at_one_time_lose_nothing(agent: Open, script: Script) -> None:
    client = agent(script(*({"content": f"{n:03}", "usage": USAGE} for n in range(200))))
    with ThreadPoolExecutor(MAX_CONCURRENT) as pool:
        said = list(pool.map(lambda n: client.messages(stream=n % 2 == 0).text, range(200)))
    assert all(sum(f"{n:03}" in text for text in said) >= 1 for n in range(200))
    assert client.gate.current_usage().turns == 200
    assert client.gate.current_usage().usage.input == 2000
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


def test_the_trajectory_of_an_answer_has_what_a_report_needs(agent: Open, script: Script) -> None:
    client = agent(script({"content": "hi", "usage": USAGE}))
    client.messages()
    (reply,) = client.events("reply")
    assert json.loads(json.dumps(reply["usage"]))["cost_usd"] == 0.004
    assert (reply["node"], reply["agent"], reply["stop_reason"]) == ("fix", "claude-code", "stop")
    assert isinstance(reply["latency_ms"], int)


def test_a_run_is_replayed_whatever_model_is_named(agent: Open, script: Script) -> None:
    first = agent(script({"content": "one", "tool_calls": [LS]}, {"content": "two"}), run_id="a")
    said = [first.messages().json()["content"] for _ in range(2)]
    again = agent("openai/gpt-4o", run_id="b", replay=first.trajectory)
    assert [again.messages().json()["content"] for _ in range(2)] == said
    assert first_difference(first.trajectory, again.trajectory) is None


@pytest.mark.parametrize("stream", [True, False])
def test_an_answer_that_broke_off_is_replayed_as_it_was(
    agent: Open, script: Script, stream: bool
) -> None:
    cut = {"message": {"role": "assistant", "content": "I see th"}, "why": "the line was cut"}
    empty = {"kind": "broken", "why": "slow down"}  # the agent asked again: nothing to play
    name = script(empty, {"kind": "broken", **cut}, {"content": "I see that."})
    client = agent("openai/gpt-4o", replay=Path(name.removeprefix("scripted/")))
    first = client.messages(stream=stream)
    assert "the line was cut" in first.text
    assert ("I see th" in first.text) == stream
    assert client.gate.current_usage().outage == "the line was cut"
    assert "I see that." in client.messages(stream=stream).text
    assert client.gate.current_usage().outage is None
    (broken,) = client.events("broken")
    assert {key: broken[key] for key in cut} == cut


def test_a_script_is_found_from_the_folder_of_the_caller(
    agent: Open, script: Script, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script({"content": "found"})
    monkeypatch.chdir(tmp_path)
    client = agent("scripted/replies.jsonl")
    monkeypatch.chdir("/")
    assert client.gate.complete(ASK).message.content == "found"
