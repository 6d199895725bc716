"""The shipped `claude` and `pi` go on with a conversation that was cut off."""

import pytest

from contracts.errors import SandboxLost
from nodes.agents.talk import Still, Talk
from tests.agents.calls import reply, shell
from tests.agents.conftest import Bench
from tests.agents.hostile import inside

pytestmark = pytest.mark.docker


@pytest.mark.parametrize("agent", ["claude-code", "pi"])
def test_an_agent_that_was_cut_off_goes_on_with_what_was_said(bench: Bench, agent: str) -> None:
    kept: list[Talk] = []

    def dies(talk: Talk, still: Still) -> None:
        assert still()
        kept.append(talk)
        raise SandboxLost("the run was killed here")

    inside(bench.sandbox, "rm -f lines.txt")
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
