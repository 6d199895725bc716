"""The model goes away under the shipped agents: that is no failed node, whoever was at work."""

import json
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from contracts.agents import AGENTS, CLI_AGENTS
from contracts.errors import ModelUnavailable
from flows.config.settings import load_settings
from flows.services import gateway
from nodes.agents.acp import acp_agent
from nodes.agents.claude_code import claude_code
from nodes.agents.native import gateway_native_agent
from nodes.agents.pi import pi
from nodes.agents.types import Agent, AgentLimits, AgentTask
from providers.trajectory import first_difference
from sandbox.container import DockerSandbox
from tests.support import openai_events
from tests.support.agent_calls import reply, shell
from tests.support.agents import Bench
from tests.support.fake_provider import Answer, provider
from tests.support.gateway import openai_answer
from tests.support.hostile import inside, set_up_hostile_repository
from tests.support.waiting import LONG_S, growing_limits

pytestmark = [
    pytest.mark.docker,
    # litellm asks pydantic in ways that pydantic warns of, at whichever call comes first.
    pytest.mark.filterwarnings("ignore:Accessing the"),
    pytest.mark.filterwarnings("ignore:Item '.*' on TypedDict"),
]

REFUSED = Answer({"error": {"message": "Incorrect API key", "type": "x"}}, 401)
BUSY = Answer({"error": {"message": "slow down", "type": "x"}}, 429)
FAILED = Answer({"error": {"message": "oops", "type": "x"}}, 500)
NO_TOOLS = Answer({"error": {"message": "tools are not supported", "type": "x"}}, 400)
TOO_LONG = Answer({"error": {"message": "This model's maximum context length is 9 tokens"}}, 400)
BROKEN = Answer(events=openai_events.begun("I see that ", "it "))


@pytest.fixture(autouse=True)
def repository(agents_sandbox: DockerSandbox) -> None:
    set_up_hostile_repository(agents_sandbox)


def step(agent: str) -> Answer:
    """A call of the shell, streamed to those who ask for that."""
    function = shell(agent, "echo done > step")["function"]
    assert isinstance(function, dict)
    name, arguments = function["name"], json.dumps(function["arguments"])
    if agent == "native":
        function = {"name": name, "arguments": arguments}
        call = {"id": "c", "type": "function", "function": function}
        return openai_answer({"tool_calls": [call]})
    return Answer(events=openai_events.calls(name, arguments))


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize(
    ("failing", "told"),
    [
        (REFUSED, "the key for 'openai/gpt-4o' was refused"),
        (NO_TOOLS, "'openai/gpt-4o' refused the request as malformed \\(tools are not"),
        (BUSY, "'openai/gpt-4o' is rate limited after 6 attempts"),
        (FAILED, "'openai/gpt-4o' gives no usable answer after 3 attempts"),
        (BROKEN, "'openai/gpt-4o' (broke off|gives no usable answer)"),
    ],
)
def test_a_failing_model_is_an_outage(
    bench: Bench, agent: str, monkeypatch: pytest.MonkeyPatch, failing: Answer, told: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789abcdef")
    with provider(step(agent), failing) as served:
        monkeypatch.setenv("OPENAI_API_BASE", served.url)
        told = rf"{told}.*; spent \d turns, \d{{4,5}} "
        with pytest.raises(ModelUnavailable, match=told) as outage:
            bench(agent, model="openai/gpt-4o")
    assert len(served.requests) <= 8  # agents ask again and again, providers are not
    assert "sk-test" not in str(outage.value)
    assert inside(bench.sandbox, "cat step") == "done"
    assert inside(bench.sandbox, "ls /tmp/harness-agent 2>/dev/null") == ""


@pytest.mark.parametrize("agent", sorted(CLI_AGENTS))
def test_an_interrupted_answer_is_replayed_exactly(
    bench: Bench, agent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789abcdef")
    with provider(step(agent), BROKEN) as served, pytest.raises(ModelUnavailable):
        monkeypatch.setenv("OPENAI_API_BASE", served.url)
        bench(agent, model="openai/gpt-4o")
    old = bench.trajectory.rename(bench.trajectory.with_name("old.jsonl"))
    assert inside(bench.sandbox, "cat step; rm step") == "done"
    with pytest.raises(ModelUnavailable):
        bench(agent, model=f"scripted/{old}")
    assert inside(bench.sandbox, "cat step") == "done"
    assert first_difference(old, bench.trajectory) is None
    cut = bench.events("broken")[0]
    assert "broke off" in str(cut["why"])
    assert cut["message"] == {"role": "assistant", "content": "I see that it "}


@pytest.mark.parametrize("agent", sorted(CLI_AGENTS))
def test_a_full_context_window_fails_the_node(
    bench: Bench, agent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789abcdef")
    with provider(step(agent), TOO_LONG) as served:
        monkeypatch.setenv("OPENAI_API_BASE", served.url)
        result = bench(agent, model="openai/gpt-4o")
    assert result.status == "failure"
    told = {
        "goose": "context limit exceeded even after removing all tool responses",
        "opencode": "context exceeds model limit",
    }.get(agent, "prompt is too long")
    assert told in str(result.error).lower()


@pytest.mark.parametrize("agent", sorted(CLI_AGENTS))
def test_a_slow_model_does_not_time_out(
    bench: Bench, agent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing on the way between an agent and its model hangs up for being silent."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789abcdef")
    with provider(Answer(events=openai_events.text("Done."), silence_s=12)) as served:
        monkeypatch.setenv("OPENAI_API_BASE", served.url)
        result = bench(agent, model="openai/gpt-4o")
    assert (result.status, result.output, len(served.requests)) == ("success", "Done.", 1)


def test_a_killed_agent_is_charged_for_an_unfinished_answer(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789abcdef")
    with provider(Answer(events=openai_events.text("Done."))) as served:
        monkeypatch.setenv("OPENAI_API_BASE", served.url)
        bench("pi", model="openai/gpt-4o")  # the gateway has litellm now
    words = openai_events.text(*(f"word {n} " for n in range(10_000)))
    for limit_s in growing_limits(4):
        with provider(Answer(events=words, pause_s=0.1)) as served:
            monkeypatch.setenv("OPENAI_API_BASE", served.url)
            result = bench("pi", model="openai/gpt-4o", limits=AgentLimits(time_s=limit_s))
        if result.usage.output:
            break
    assert f"time limit of {limit_s:g} s reached" in str(result.error)
    assert (result.turns, result.usage.output > 0) == (1, True)


@pytest.mark.parametrize("agent", AGENTS)
def test_a_killed_gateway_is_an_outage(
    agents_sandbox: DockerSandbox, tmp_path: Path, agent: str
) -> None:
    settings = load_settings()
    replies = [reply("I kill it.", shell(agent, "echo done > step")), reply("Never heard.")]
    script = tmp_path / "replies.jsonl"
    script.write_text("".join(json.dumps(one) + "\n" for one in replies))
    task = AgentTask(
        node="fix", prompt="go", model=f"scripted/{script}", limits=AgentLimits(time_s=LONG_S)
    )

    running = gateway.gateway_daemon(settings).up()

    def kill(_: str) -> None:
        with suppress(ProcessLookupError):
            os.kill(running.pid, signal.SIGKILL)

    with (
        pytest.raises(ModelUnavailable, match=r"the gateway at .* does not answer"),
        gateway.open_gateway_run(settings, "r1", tmp_path / "trajectory.jsonl") as run,
    ):
        port = agents_sandbox.forward(0, run.gateway.connect)
        own: dict[str, Callable[..., Agent]] = {"claude-code": claude_code, "pi": pi}
        if agent == "native":
            gateway_native_agent(run.open_gate, on_line=kill)(task, agents_sandbox)
        else:
            make = own.get(agent) or partial(acp_agent, agent)
            make(run.open_gate, port=port, on_line=kill)(task, agents_sandbox)
