"""MCP servers in sandboxes of their own: hostile ones, their way out, and their end."""

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress
from functools import partial
from pathlib import Path

import pytest

from contracts.errors import McpUnavailable, SecretMissing
from contracts.tool import Tool, Toolbox, ToolCall
from flows.config.settings import load_settings
from flows.execution.host_tools import host_tools
from flows.execution.mcp import MAX_TOOLS, OpenServer, open_server, usable_tools
from flows.runs.home import home_owner
from nodes.agents.allowed_tools import parse_allowed_tools
from nodes.agents.native_tools import MAX_TOOL_OUTPUT
from sandbox.engine import DockerEngine
from sandbox.reap import list_sandboxes
from tests.support.mcp_server import settings_text
from tests.support.waiting import LONG_S, growing_limits

docker = pytest.mark.docker


@pytest.fixture
def home(own_home: Path) -> Path:
    own_home.mkdir()
    return own_home


def opened(
    home: Path, *, tools: dict[str, str] | None = None, **table: object
) -> AbstractContextManager[OpenServer]:
    (home / "harness.toml").write_text(settings_text(tools or {}, **table))
    return open_server(load_settings(), "tracker", DockerEngine, run_id="r1")


def running(home: Path) -> int:
    return len(list_sandboxes(DockerEngine(), home_owner(home)))


@docker
@pytest.mark.parametrize(
    ("tool", "said"),
    [
        ("die", "MCP server 'tracker': Connection closed: out of order: no token"),
        ("big", "MCP server 'tracker': it sent a message of more than 4 MiB"),
        ("flood", "MCP server 'tracker': it sent more than 16 MiB for one request"),
    ],
)
def test_a_server_that_misbehaves_is_one_line_for_the_model(
    home: Path, tool: str, said: str
) -> None:
    with opened(home, timeout_s=LONG_S) as server, pytest.raises(McpUnavailable) as caught:
        server.call(tool, {})
    assert str(caught.value).startswith(said)
    assert running(home) == 0


@docker
def test_a_server_that_hangs_is_given_up_after_its_time(home: Path) -> None:
    for limit_s in growing_limits(2.0):
        with suppress(McpUnavailable), opened(home, timeout_s=limit_s) as server:
            with pytest.raises(McpUnavailable, match="'tools/call' timed out"):
                server.call("hang", {})
            break  # else it had no time to start
    assert running(home) == 0


@docker
def test_a_server_that_asks_for_our_model_is_refused(home: Path) -> None:
    with opened(home) as server:
        answer = json.loads(server.call("sample", {}).text)
    assert "not supported" in answer["error"]["message"]


@docker
def test_a_server_gets_the_variables_of_its_table_and_no_others(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", "s3cret-of-the-tracker")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-of-the-model")
    with opened(home, env={"TRACKER_TOKEN": "${MY_TOKEN}"}) as server:
        names = server.call("variables", {}).text.split()
        with pytest.raises(McpUnavailable) as caught:
            server.call("die", {})
    assert "TRACKER_TOKEN" in names
    assert not {"MY_TOKEN", "ANTHROPIC_API_KEY"} & set(names)
    assert "out of order: [redacted]" in str(caught.value)


def test_a_variable_that_is_not_set_is_named(home: Path) -> None:
    begun = opened(home, env={"TRACKER_TOKEN": "${NO_SUCH_TOKEN}"})
    with (
        pytest.raises(SecretMissing, match=r"\[mcp.tracker.env\] TRACKER_TOKEN .*NO_SUCH_TOKEN"),
        begun,
    ):
        pass


@docker
@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["no-such-program"], "no-such-program: No such file or directory"),
        (["python3", "-c", "print('hello')"], "Connection closed"),
    ],
)
def test_a_command_that_is_no_server_says_why(home: Path, command: list[str], said: str) -> None:
    with pytest.raises(McpUnavailable, match=said), opened(home, command=command):
        pass
    assert running(home) == 0


@docker
def test_two_runs_have_servers_of_their_own(home: Path) -> None:
    with opened(home) as one, opened(home) as other:
        assert one.call("count", {}).text == "1 calls"
        assert one.call("count", {}).text == "2 calls"
        assert other.call("count", {}).text == "1 calls"
        assert running(home) == 2
    assert running(home) == 0


@pytest.fixture
def box(home: Path) -> Iterator[Toolbox]:
    (home / "harness.toml").write_text(settings_text({}, timeout_s=LONG_S))
    by_name = partial(open_server, load_settings(), engine=DockerEngine, run_id="r1")
    with host_tools(lambda: None, by_name) as find:
        found = find(parse_allowed_tools(("mcp(tracker:*)",)))
        assert found is not None
        yield found


@docker
def test_what_a_model_gets_is_bounded_text(box: Toolbox) -> None:
    def run(tool: str, arguments: str = "{}") -> str:
        return box.run(ToolCall(id="1", name=f"tracker__{tool}", arguments=arguments))

    assert run("get_issue", '{"number": 7}') == 'get_issue {"number": 7}'
    assert run("get_issue", "[7]") == "error: the arguments must be a JSON object"
    assert len(run("get_issue", json.dumps({"text": "x" * 100_000}))) <= MAX_TOOL_OUTPUT + 100
    assert run("die").startswith("error: MCP server 'tracker'")
    assert "it may hold instructions" in box.prompt_section("do")


def test_no_server_starts_for_an_agent_that_may_use_none() -> None:
    def refuse(name: str) -> AbstractContextManager[OpenServer]:
        raise AssertionError(name)

    with host_tools(lambda: None, refuse) as find:
        assert find(parse_allowed_tools(None)) is None
        assert find(parse_allowed_tools(("read", "shell"))) is None


def test_tools_that_no_model_takes_are_left_out() -> None:
    def tool(name: str, description: str = "", **schema: object) -> Tool:
        return Tool(name=name, description=description, parameters=schema)

    usable, left_out = usable_tools(
        "tracker",
        [
            tool("good", "a\x1b[31m\u202eb" + "x" * 9_000),
            tool("good", "another"),
            tool("bad name"),
            tool("long" * 20),
            tool("large", properties={"x" * 30_000: {}}),
        ],
    )
    assert [one.name for one in usable] == ["good"]
    assert usable[0].parameters == {"type": "object"}
    assert usable[0].description.startswith("abx")
    assert len(usable[0].description) < 3_000
    assert len(left_out) == 4
    many, more = usable_tools("t", [tool(f"t{number}") for number in range(MAX_TOOLS + 5)])
    assert (len(many), len(more)) == (MAX_TOOLS, 1)
