"""The shipped agents with MCP servers that others publish on npm and the Python Package Index."""

import json
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
from sandbox.engine import DockerEngine
from tests.support.agent_calls import call, reply
from tests.support.agents import Bench

pytestmark = pytest.mark.docker
SERVERS = {
    "everything": ["mcp-server-everything"],
    "files": ["mcp-server-filesystem", "/workspace"],
    "memory": ["mcp-server-memory"],
    "time": ["mcp-server-time", "--local-timezone", "UTC"],
    "git": ["mcp-server-git"],
}
PACKAGES = [
    *(f"npm:@modelcontextprotocol/server-{n}@2026.8.31" for n in ("everything", "filesystem")),
    "npm:@modelcontextprotocol/server-memory@2026.8.31",
    "pypi:mcp-server-time==2026.10.19",
    "pypi:mcp-server-git==2026.10.19",
]
EFFECTS = {
    "everything": {"echo": "read"},
    "files": {"write_file": "write", "read_text_file": "read"},
    "memory": {"create_entities": "write"},
    "time": {"get_current_time": "read"},
    "git": {"git_status": "read"},
}
ENV = {"memory": {"MEMORY_FILE_PATH": "/tmp/memory.json"}}
ALLOWED = ("read", "shell", *(f"mcp({name}:*)" for name in SERVERS))

Calls = list[tuple[str, dict[str, object], str]]


def calls_of(agent: str) -> Calls:
    """Calls of tools, each with what its result contains."""
    entity = {"name": f"friend of {agent}", "entityType": "person", "observations": ["likes tea"]}
    return [
        ("everything__echo", {"message": "hello"}, "hello"),
        ("files__write_file", {"path": "/workspace/a.txt", "content": "forty-two"}, "a.txt"),
        ("files__read_text_file", {"path": "/workspace/a.txt"}, "forty-two"),
        ("memory__create_entities", {"entities": [entity]}, f"friend of {agent}"),
        ("time__get_current_time", {"timezone": "Europe/Vienna"}, "Europe/Vienna"),
    ]


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Toolbox]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HARNESS_HOME", str(tmp_path_factory.mktemp("home")))
        tables = {
            name: {
                "command": command,
                "packages": PACKAGES,
                "tools": EFFECTS[name],
                "env": ENV.get(name, {}),
            }
            for name, command in SERVERS.items()
        }
        patch.setenv("HARNESS_MCP", json.dumps(tables))
        by_name = partial(open_server, load_settings(), engine=DockerEngine, run_id="mcp")
        with host_tools(lambda: None, by_name) as find:
            found = find(parse_allowed_tools(ALLOWED))
            assert found is not None
            yield found


@pytest.mark.parametrize("agent", AGENTS)
def test_an_agent_uses_five_public_servers(bench: Bench, box: Toolbox, agent: str) -> None:
    prefix, calls = agent_rows()[agent].host_prefix, calls_of(agent)
    declared = {f"{s}:{tool}": e for s, tools in EFFECTS.items() for tool, e in tools.items()}
    result = bench(
        agent,
        *(reply("", call(prefix + name, arguments)) for name, arguments, _ in calls),
        reply("", call(f"{prefix}everything__get-env", {})),
        reply("Done."),
        toolbox=box,
        allowed=ALLOWED,
        bounds=GuardBounds(taint=("mcp:files",), effects=declared),  # type: ignore[arg-type]  # words
    )
    assert result.error is None
    assert result.decisions == DecisionCounts(allowed=len(calls), denied=1)
    told = [str(event["text"]) for event in bench.events("result")]
    assert [
        said for (_, __, said), text in zip(calls, told, strict=False) if said not in text
    ] == []
    assert {"git__git_status", "memory__read_graph"} <= {tool.name for tool in box.tools}
