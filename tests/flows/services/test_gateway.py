"""The gateway of a home: a real process that runs share and that is replaced when outdated."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from stat import S_IMODE

import pytest

from contracts.chat import ChatRequest, Message
from contracts.errors import BudgetExceeded, ModelRefused, ModelUnavailable
from contracts.model_access import TokenSpec
from flows.config.settings import Settings, load_settings
from flows.execution.dependencies import RunDependencies
from flows.execution.engine import run_blueprint
from flows.services import gateway
from flows.services.daemon import RunningDaemon
from flows.services.gateway import complete_through_gateway, embed_through_gateway
from tests.support.fake_ollama import ollama
from tests.support.fake_provider import Answer, provider
from tests.support.flow_runs import WRITE_42, a_blueprint
from tests.support.flows import DONE, Ask
from tests.support.gateway import openai_answer
from tests.support.waiting import wait_until

Model = Callable[..., str]


@pytest.fixture
def settings(own_home: Path) -> Settings:
    return load_settings()


def ask(model: str) -> ChatRequest:
    return ChatRequest(model=model, messages=[Message(role="user", content="go")])


def lives(running: RunningDaemon) -> bool:
    return running.alive


def test_runs_share_a_gateway_which_forgets_them_at_their_end(
    settings: Settings, tmp_path: Path
) -> None:
    with gateway.open_gateway_run(settings, "a", tmp_path / "a") as a:
        with gateway.open_gateway_run(settings, "b", tmp_path / "b") as b:
            assert a.gateway.url == b.gateway.url
            assert a.gateway.open_runs() == 2
        assert a.gateway.open_runs() == 1
    with gateway.connect(settings) as client:
        assert client.open_runs() == 0


def test_the_gateway_forgets_a_run_whose_process_was_killed(
    settings: Settings, tmp_path: Path
) -> None:
    path = str(tmp_path / "k")
    code = (
        "import os, pathlib, flows.services.gateway as g, flows.config.settings as s\n"
        f"with g.open_gateway_run(s.load_settings(), 'k', pathlib.Path({path!r})) as k:\n"
        "    print(k.gateway.open_runs(), flush=True)\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    killed = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=False)
    assert (killed.returncode, killed.stdout) == (-9, b"1\n")
    with gateway.connect(settings) as client:
        wait_until(lambda: client.open_runs() == 0)


def test_a_run_with_other_keys_gets_a_gateway_of_its_own(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: Model
) -> None:
    terms = TokenSpec(node="n", agent="native", model=model({"content": "still here"}))
    with gateway.open_gateway_run(settings, "a", tmp_path / "a") as old:
        first = gateway.gateway_daemon(settings).up()
        monkeypatch.setenv("OPENAI_API_KEY", "sk-another-key-of-mine")
        with gateway.open_gateway_run(settings, "b", tmp_path / "b") as new:
            assert new.gateway.check_model("openai/gpt-4o")
            with pytest.raises(ModelUnavailable, match="no key for 'openai/gpt-4o'"):
                old.gateway.check_model("openai/gpt-4o")
            with old.open_gate(terms) as gate:
                assert gate.complete(ask(terms.model)).message.content == "still here"
            assert (old.gateway.open_runs(), new.gateway.open_runs()) == (1, 1)
        assert lives(first)
    wait_until(lambda: not lives(first))
    assert gateway.gateway_daemon(settings).up().url == new.gateway.url
    assert [path.name for path in (settings.home / "gateway").glob("*.json")] == ["gateway.json"]


def test_an_idle_gateway_with_other_keys_is_replaced_at_once(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = gateway.gateway_daemon(settings).up()
    monkeypatch.setenv("OPENAI_API_KEY", "sk-another-key-of-mine")
    assert gateway.gateway_daemon(settings).up().pid != first.pid
    assert not first.alive


def test_down_also_stops_replaced_gateways(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ModelUnavailable), gateway.open_gateway_run(settings, "a", tmp_path / "a"):
        first = gateway.gateway_daemon(settings).up()
        monkeypatch.setenv("OPENAI_API_KEY", "sk-another-key-of-mine")
        second = gateway.gateway_daemon(settings).up()
        assert [lives(first), lives(second)] == [True, True]
        assert gateway.gateway_daemon(settings).down()
        assert [lives(first), lives(second)] == [False, False]
        assert not list((settings.home / "gateway").glob("*.json"))


def test_the_secret_is_private_and_no_key_is_written_down(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-my-own-key")
    running = gateway.gateway_daemon(settings).up()
    folder = settings.home / "gateway"
    secret = (folder / "secret").read_text()
    assert S_IMODE((folder / "secret").stat().st_mode) == 0o600
    assert secret not in Path(f"/proc/{running.pid}/cmdline").read_text()
    assert secret not in Path(f"/proc/{running.pid}/environ").read_text()
    said = "".join(p.read_text() for p in folder.iterdir() if p.name != "secret")
    assert secret not in said
    assert "sk-my-own-key" not in said


def test_a_gateway_ends_when_its_secret_is_deleted(settings: Settings) -> None:
    running = gateway.gateway_daemon(settings).up()
    (settings.home / "gateway" / "secret").unlink()
    wait_until(lambda: not running.alive)


def test_a_run_without_an_agent_starts_no_gateway(
    shop: RunDependencies, ask: Ask, own_home: Path
) -> None:
    request = ask(a_blueprint("true"))
    shop.check_request(request)
    run_blueprint(request, shop, run_id="abcd1234")
    assert not (own_home / "gateway").exists()


def test_a_run_never_imports_litellm(
    own_home: Path, repository: Path, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = (
        "import sys, flows.execution.wiring, flows.execution.engine, tests.support.requested\n"
        "import tests.support.flow_runs as t\n"
        "from tests.support.flows import scripted_shop\n"
        "asked = tests.support.requested.requested(t.checked(), sys.argv[1], model=sys.argv[2])\n"
        "shop = scripted_shop()\n"
        "shop.check_request(asked)\n"
        "report = flows.execution.engine.run_blueprint(asked, shop, run_id='abcd1234')\n"
        "assert report.status == 'success', report\n"
        "assert report.token_usage.input == 7, report\n"
        "sys.exit('litellm' in sys.modules)\n"
    )
    replies = model({**WRITE_42, "usage": {"input": 7}}, DONE)
    argv = [sys.executable, "-c", code, str(repository), replies]
    with ollama() as served:
        monkeypatch.setenv("HARNESS_MEMORY_EMBEDDING__PROVIDER", "ollama")
        monkeypatch.setenv("HARNESS_MEMORY_EMBEDDING__MODEL", "nomic-embed-text")
        monkeypatch.setenv("HARNESS_MEMORY_EMBEDDING__URL", "${OLLAMA_PLACE}")
        monkeypatch.setenv("OLLAMA_PLACE", served.url)
        subprocess.run(argv, check=True, env=os.environ, cwd=Path.cwd())
    assert "/api/embed" in [path for path, _ in served.asked]
    (calls,) = (own_home / "calls").glob("*-embed.jsonl")
    embedded = [json.loads(line) for line in calls.read_text().splitlines()]
    assert {event["kind"] for event in embedded} == {"embedding"}
    assert all(event["usage"]["input"] > 0 for event in embedded)


def test_embeddings_and_chats_are_priced_and_no_key_is_recorded(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Vectors and a chat in one test: each gateway imports litellm for them, which takes 3 s."""
    row = {"object": "embedding", "index": 0, "embedding": [0.5, 0.25]}
    counts = {"prompt_tokens": 10, "total_tokens": 10}
    vectors = Answer({"object": "list", "data": [row], "usage": counts})
    too_long = Answer({"error": {"message": "too long"}}, status=400)
    with (
        provider(vectors, vectors, too_long) as served,
        provider(openai_answer({"content": "hi"})) as chats,
    ):
        prices = {"openai/mine": {"input": 1000, "output": 1000}}
        monkeypatch.setenv("HARNESS_PRICES", json.dumps(prices))
        monkeypatch.setenv("OPENAI_API_KEY", "sk-for-chats")
        monkeypatch.setenv("OPENAI_API_BASE", chats.url)
        embed = embed_through_gateway(
            load_settings(), "openai/mine", api_key="sk-my-own-key", api_base=served.url
        )
        assert embed([]) == []
        assert not (settings.home / "gateway").exists()
        assert embed(["hello there"]) == [[0.5, 0.25]]
        gateway.gateway_daemon(settings).down()
        assert embed(["hello there"]) == [[0.5, 0.25]]
        with pytest.raises(ModelRefused):
            embed(["hello there"])
        with complete_through_gateway(load_settings(), purpose="plan") as complete:
            reply = complete(ask("openai/mine"))
    assert served.requests[0]["input"] == ["hello there"]
    (calls,) = (settings.home / "calls").glob("*-embed.jsonl")
    first, _ = map(json.loads, calls.read_text().splitlines())
    assert (first["texts"], first["usage"]["cost_usd"]) == (1, 0.01)
    assert reply.usage.total == 1010
    assert reply.usage.cost_usd == pytest.approx(0.41)
    nobody = embed_through_gateway(load_settings(), "openai/mine", api_base="http://127.0.0.1:9")
    with pytest.raises(ModelUnavailable, match="'openai/mine'"):
        nobody(["hello"])
    written = "".join(path.read_text() for path in settings.home.rglob("*.*") if path.is_file())
    for secret in ("sk-my-own-key", "sk-for-chats", "hello there"):
        assert secret not in written


def test_harness_itself_calls_models_through_the_gateway(settings: Settings, model: Model) -> None:
    fly = {"function": {"name": "fly", "arguments": {"to": "x"}}}
    name = model({"content": "one", "tool_calls": [fly]}, {"content": "two"})
    with complete_through_gateway(settings, purpose="plan") as complete:
        assert not (settings.home / "gateway").exists()
        first, second = complete(ask(name)), complete(ask(name))
    assert first.message.tool_calls[0].name == "fly"
    assert second.message.content == "two"
    (written,) = (settings.home / "calls").glob("*-plan-*.jsonl")
    assert '"node": "plan"' in written.read_text()


def test_an_exceeded_budget_says_what_was_spent(settings: Settings, model: Model) -> None:
    costly = {"content": "x", "usage": {"output": 5, "cost_usd": 0.02}}
    name = model(costly, costly)
    with complete_through_gateway(settings, purpose="plan", budget_usd=0.01) as complete:
        complete(ask(name))
        with pytest.raises(BudgetExceeded, match=r"budget exceeded: \$0\.0200 of \$0\.01, 5 tok"):
            complete(ask(name))


@pytest.mark.usefixtures("from_nothing")
def test_the_gateway_of_a_providers_model_imports_litellm_when_it_starts(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_MODEL", "ollama/qwen3, openai/gpt-4o")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    running = gateway.gateway_daemon(settings).up()
    maps = Path(f"/proc/{running.pid}/maps")
    wait_until(lambda: "tiktoken" in maps.read_text())  # a library that only litellm imports
