"""The shipped agents use tools of an MCP server, which runs in a sandbox of its own."""

from collections.abc import Iterator
from functools import partial

import pytest

from contracts.agents import AGENTS
from contracts.model_access import GuardBounds
from contracts.run import DecisionCounts
from contracts.tool import Toolbox
from flows.config.settings import load_settings
from flows.execution.host_tools import host_tools
from flows.execution.mcp import open_server
from nodes.agents.allowed_tools import parse_allowed_tools
from nodes.agents.table import agent_rows
from sandbox.container import DockerSandbox
from sandbox.engine import DockerEngine
from tests.support.agent_calls import call, reply, shell
from tests.support.agents import Bench
from tests.support.hostile import inside
from tests.support.mcp_server import settings_text

pytestmark = pytest.mark.docker
ALLOWED = ("read", "shell", "mcp(tracker:get_*)", "mcp(tracker:create_issue)")
BOUNDS = GuardBounds(taint=("repo:x", "mcp:tracker"), effects={"tracker:get_issue": "read"})


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Toolbox]:
    with pytest.MonkeyPatch.context() as patch:
        home = tmp_path_factory.mktemp("home")
        patch.setenv("HARNESS_HOME", str(home))
        (home / "harness.toml").write_text(settings_text({"get_issue": "read"}))
        opened = partial(open_server, load_settings(), engine=DockerEngine, run_id="mcp")
        with host_tools(lambda: None, opened) as find:
            found = find(parse_allowed_tools(ALLOWED))
            assert found is not None
            yield found


@pytest.fixture(autouse=True)
def repository(agents_sandbox: DockerSandbox) -> None:
    inside(agents_sandbox, "git init -q . 2>/dev/null; rm -f seen")


def name_of(agent: str, tool: str) -> str:
    return f"{agent_rows()[agent].host_prefix}tracker__{tool}"


@pytest.mark.parametrize("agent", AGENTS)
def test_an_agent_calls_a_tool_that_is_declared_read(
    bench: Bench, box: Toolbox, agent: str
) -> None:
    result = bench(
        agent,
        reply("", call(name_of(agent, "get_issue"), {"number": 7})),
        reply("Read."),
        toolbox=box,
        allowed=ALLOWED,
        bounds=BOUNDS,
    )
    assert result.error is None
    assert result.decisions == DecisionCounts(allowed=1)
    assert "tracker__get_issue" in str(bench.events("request")[0]["tools"])
    told = str(bench.events("result")[0]["text"]).replace("\\", "")  # codex quotes it as JSON
    assert 'get_issue {"number": 7}' in told
    assert [event["verdict"] for event in bench.events("decision")] == ["allowed"]


@pytest.mark.parametrize("agent", AGENTS)
def test_a_tool_that_is_not_declared_is_denied_before_it_runs(
    bench: Bench, box: Toolbox, agent: str
) -> None:
    result = bench(
        agent,
        reply("", call(name_of(agent, "create_issue"), {"number": 7})),
        reply("So be it."),
        toolbox=box,
        allowed=ALLOWED,
        bounds=BOUNDS,
    )
    assert result.decisions == DecisionCounts(denied=1)
    (decision,) = bench.events("decision")
    assert (decision["verdict"], decision["rule"]) == ("denied", "C4")


@pytest.mark.parametrize("agent", AGENTS)
def test_a_tool_that_the_node_does_not_allow_is_neither_offered_nor_called(
    bench: Bench, box: Toolbox, agent: str
) -> None:
    result = bench(
        agent,
        reply("", call(name_of(agent, "get_issue"), {"number": 7})),
        reply("So be it."),
        toolbox=box,
        allowed=("read", "shell"),
        bounds=BOUNDS,
    )
    assert result.decisions == DecisionCounts(denied=1)
    assert "tracker" not in str(bench.events("request")[0]["tools"])


DIRECT = """
token=$(grep -rhoE 'hrn-[A-Za-z0-9_-]+' /tmp/harness-agent | head -1)
for tool in get_issue create_issue get_anything; do
  python3 - "$token" "tracker__$tool" <<'END'
import json, sys, urllib.request
params = {"name": sys.argv[2], "arguments": {"number": 8}}
body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
headers = {"Authorization": "Bearer " + sys.argv[1], "Content-Type": "application/json"}
asked = urllib.request.Request("http://127.0.0.1:4180/mcp", json.dumps(body).encode(), headers)
print(json.load(urllib.request.urlopen(asked))["result"]["content"][0]["text"])
END
done > seen
"""
"""A program of the agent's sandbox that has found its token and talks to the gateway itself."""


@pytest.mark.parametrize("agent", ["claude-code", "opencode"])
def test_a_program_in_the_sandbox_that_talks_to_the_gateway_is_guarded(
    bench: Bench, box: Toolbox, agent: str
) -> None:
    inside(bench.sandbox, "rm -rf /tmp/harness-agent")  # tokens of agents before this one
    inside(bench.sandbox, "cat > direct.sh <<'EOF'\n" + DIRECT + "EOF\n")
    result = bench(
        agent,
        reply("", shell(agent, "sh direct.sh")),
        reply("Done."),
        toolbox=box,
        allowed=ALLOWED,
        bounds=BOUNDS,
    )
    assert result.error is None
    seen = inside(bench.sandbox, "cat seen").splitlines()
    assert seen[0] == 'get_issue {"number": 8}'
    assert seen[1].startswith("denied: the agent would call 'create_issue'")
    assert seen[2].startswith("denied: the agent would call 'get_anything'")
    verdicts = [event["verdict"] for event in bench.events("decision")]
    assert verdicts == ["allowed", "allowed", "denied", "denied"]
