"""The shipped `claude` and `pi` go on with a conversation that was cut off."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from contracts.agents import CLI_AGENTS
from contracts.errors import SandboxLost
from nodes.agents.cli import GATEWAY_PORT
from nodes.agents.types import Conversation, StillCurrent
from providers.client import Gateway
from sandbox.container import DockerSandbox
from sandbox.engine import DockerEngine
from sandbox.spec import SandboxSpec
from tests.support.agent_calls import reply, shell
from tests.support.agents import Bench
from tests.support.hostile import inside
from tests.support.waiting import LONG_S

pytestmark = pytest.mark.docker


@pytest.fixture
def moved(bench: Bench, gateway: Gateway) -> Iterator[Callable[[], None]]:
    """Moves the bench into another container, with the files as they are now."""
    engine, first = DockerEngine(), bench.sandbox
    with ExitStack() as stack:

        def move() -> None:
            files = first.checkpoint(LONG_S)
            stack.callback(engine.remove_image, files)
            spec = SandboxSpec(image=files, owner="harness-tests", run_id="moved")
            bench.sandbox = stack.enter_context(DockerSandbox.start(engine, spec))
            bench.sandbox.forward(GATEWAY_PORT, gateway.connect)

        yield move
        inside(first, "rm -rf /tmp/harness-agent lines.txt")


@pytest.mark.parametrize("agent", sorted(CLI_AGENTS))
def test_an_interrupted_agent_continues_its_conversation_in_another_container(
    bench: Bench, agent: str, moved: Callable[[], None]
) -> None:
    kept: list[Conversation] = []

    def dies(talk: Conversation, still: StillCurrent) -> None:
        moved()
        assert still()
        kept.append(talk)
        raise SandboxLost("the run was killed here")

    with pytest.raises(SandboxLost):  # its second question would get no answer
        bench(agent, reply("", shell(agent, "echo one >> lines.txt")), keep=dies)
    [talk] = kept
    assert (talk.spent.turns, sum(talk.spent.tool_calls.values())) == (1, 1)
    before = len(bench.events("request"))
    two = shell(agent, "echo two >> lines.txt")
    result = bench(agent, reply("", two), reply("Both are there."), so_far=talk)
    assert (result.error, result.output, result.turns) == (None, "Both are there.", 3)
    assert result.usage.cost_usd == pytest.approx(0.003)
    assert inside(bench.sandbox, "cat lines.txt; ls /tmp/harness-agent") == "one\ntwo"
    asked = str(bench.events("request")[before]["messages"])
    assert "You were interrupted" in asked
    assert "SECRET-PROMPT" not in asked
