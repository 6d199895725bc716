"""What an agent is given of its run."""

from collections.abc import Mapping

import pytest

from contracts.chat import ChatRequest, Message, Reply
from contracts.run import RunContext
from nodes.agents.native import native_agent
from nodes.agents.runner import agent_runner
from nodes.types import Agentic
from sandbox.scripted import ScriptedSandbox

NOWHERE = "There is no network.\n"


@pytest.mark.parametrize(
    ("env", "offline"), [({}, True), ({"HTTPS_PROXY": "http://127.0.0.1:9"}, False)]
)
def test_the_system_prompt_says_whether_there_is_a_network(
    sandbox: ScriptedSandbox, env: Mapping[str, str], offline: bool
) -> None:
    asked: list[ChatRequest] = []

    def complete(request: ChatRequest) -> Reply:
        asked.append(request)
        return Reply(message=Message(role="assistant", content="Done."))

    run_agent = agent_runner(
        {"native": lambda _: native_agent(complete)}, on_line=lambda node, line: None
    )
    node = Agentic(name="upgrade", description="", prompt=lambda _: "Upgrade.", agent="native")
    run_agent(node, RunContext(run_id="r-1", work_dir=sandbox.work_dir, env=env), sandbox)
    told = asked[0].messages[0].content
    assert (NOWHERE in told, "hosts that this run may reach" in told) == (offline, not offline)
