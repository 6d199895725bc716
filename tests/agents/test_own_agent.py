"""The agent that the documentation adds by settings works as the built-in ones do."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from contracts.run import DecisionCounts
from flows.config.settings import load_settings
from flows.execution.toolchain import agents_image
from nodes.agents.acp import acp_agent
from nodes.agents.cli import GATEWAY_PORT
from providers.client import Gateway
from sandbox.container import DockerSandbox
from sandbox.engine import DockerEngine
from sandbox.images import ensure_image
from sandbox.spec import SandboxSpec
from tests.support.agent_calls import OWN_AGENT, own_agent_settings, reply, shell
from tests.support.agents import AGENTS, Bench
from tests.support.hostile import inside

pytestmark = pytest.mark.docker


@pytest.fixture
def bench(
    gateway: Gateway, own_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Bench]:
    own_home.mkdir()
    (own_home / "harness.toml").write_text(own_agent_settings())
    load_settings()
    monkeypatch.setitem(
        AGENTS, OWN_AGENT, lambda gate, told: acp_agent(OWN_AGENT, gate, on_line=told)
    )
    engine = DockerEngine()
    image = ensure_image(engine, agents_image([OWN_AGENT]), print)
    spec = SandboxSpec(image=image, owner="harness-tests", run_id="own-agent")
    with DockerSandbox.start(engine, spec) as sandbox:
        sandbox.forward(GATEWAY_PORT, gateway.connect)
        yield Bench(gateway, sandbox, tmp_path)


def test_it_works_under_guard_and_budget(bench: Bench) -> None:
    result = bench(
        OWN_AGENT,
        reply("Let me look.", shell(OWN_AGENT, "echo one > lines.txt")),
        reply("", shell(OWN_AGENT, "touch pwned; rm lines.txt")),
        reply("Written."),
        allowed=("read", "shell(echo one > lines.txt)"),
    )
    assert (result.error, result.output) == (None, "Written.")
    assert result.decisions == DecisionCounts(allowed=1, denied=1)
    assert inside(bench.sandbox, "cat lines.txt; ls pwned").startswith("one\nls: cannot access")
    assert result.usage.cost_usd == pytest.approx(0.003)
    again = [reply(f"{n}", shell(OWN_AGENT, f"echo {n}"), cost_usd=0.004) for n in range(9)]
    stopped = bench(OWN_AGENT, *again, budget_usd=0.01)
    assert str(stopped.error).startswith("budget exceeded: $0.0120 of $0.01")
