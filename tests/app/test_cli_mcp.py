"""`harness mcp`: servers are added, listed, tried, and their tools shown."""

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from contracts.tool import Tool, Toolbox
from providers.mcp_endpoint import serve_toolbox
from tests.support.app import Harness

OBJECT = {"type": "object"}
ADDED = (
    *("mcp", "add", "tracker", "--package", "npm:@example/tracker@1.4.0"),
    *("--egress", "tracker.example.org", "--env", "TOKEN=${TRACKER_TOKEN}"),
    *("--tool", "get_issue=read", "--", "tracker", "--project", 'a "b"'),
)


def test_a_server_is_added_and_listed_without_its_secrets(asked: Harness, own_home: Path) -> None:
    assert asked(*ADDED).returncode == 0
    table = tomllib.loads((own_home / "harness.toml").read_text())["mcp"]["tracker"]
    assert table["command"] == ["tracker", "--project", 'a "b"']
    assert table["env"] == {"TOKEN": "${TRACKER_TOKEN}"}
    (listed,) = json.loads(asked("mcp", "list", "--json").stdout)
    assert (listed["name"], listed["env"], listed["tools"]) == (
        "tracker",
        ["TOKEN"],
        {"get_issue": "read"},
    )
    assert "tracker.example.org" in asked("mcp", "list").stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("add", "Tracker", "--", "x"), "lower-case letters"),
        (("add", "tracker"), "give either a command or a url"),
        (("add", "tracker", "--url", "http://a.example/", "--", "x"), "either a command or a url"),
        (("add", "tracker", "--package", "npm:x", "--", "x"), "npm:NAME@VERSION"),
        (("add", "tracker", "--tool", "get=reed", "--", "x"), "'read', 'write' or 'egress'"),
        (("add", "tracker", "--env", "TOKEN", "--", "x"), "give NAME=VALUE"),
        (("tools", "tracker"), "no MCP server 'tracker' in the settings; known: none"),
        (("test", "tracker"), "no MCP server 'tracker' in the settings; known: none"),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(
    asked: Harness, own_home: Path, words: tuple[str, ...], said: str
) -> None:
    done = asked("mcp", *words)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (own_home / "harness.toml").exists()


def test_a_server_is_not_added_twice(asked: Harness, own_home: Path) -> None:
    asked(*ADDED)
    before = (own_home / "harness.toml").read_text()
    assert "already" in asked(*ADDED).stderr
    assert (own_home / "harness.toml").read_text() == before


@pytest.fixture
def tracker(asked: Harness, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A server at a URL, declared but for one tool."""
    named = ("get_issue", "close_issue", "bad name")
    box = Toolbox(
        tools=tuple(Tool(name=n, description="Does it.\x1b[2J", parameters=OBJECT) for n in named),
        run=lambda _: "",
        prompt_section=lambda _: "",
        serve=serve_toolbox,
    )
    with serve_toolbox(box) as served:
        monkeypatch.setenv("TRACKER_TOKEN", served.token)
        header = "Authorization=Bearer ${TRACKER_TOKEN}"
        declared = ("--tool", "get_issue=read", "--tool", "gone=write")
        asked("mcp", "add", "tracker", "--url", served.url, "--header", header, *declared)
        yield


def test_tools_are_listed_with_their_effects(asked: Harness, tracker: None) -> None:
    done = asked("mcp", "tools", "tracker")
    assert "get_issue    read" in done.stdout
    assert "close_issue  not declared: a person is asked  Does it." in done.stdout
    assert "\x1b" not in done.stdout
    assert "'bad name'" in done.stderr
    found = json.loads(asked("mcp", "tools", "tracker", "--json").stdout)
    assert [(one["allowed_tools"], one["effect"]) for one in found] == [
        ("mcp(tracker:get_issue)", "read"),
        ("mcp(tracker:close_issue)", None),
    ]


def test_a_test_says_what_is_not_declared_and_what_is_missing(
    asked: Harness, tracker: None
) -> None:
    done = asked("mcp", "test", "tracker")
    assert done.stdout.startswith("tracker answers: 2 tools, 1 not declared, in ")
    assert "the server has no such tool: gone" in done.stderr
    document = json.loads(asked("mcp", "test", "tracker", "--json").stdout)
    assert (document["undeclared"], document["missing"]) == (["close_issue"], ["gone"])


def test_doctor_tries_the_servers(
    asked: Harness, tracker: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told() -> tuple[bool, str]:
        found = {one["what"]: one for one in json.loads(asked("doctor", "--json").stdout)}
        return found["mcp tracker"]["ok"], found["mcp tracker"]["found"]

    assert told() == (True, "answers: 2 tools")
    monkeypatch.setenv("TRACKER_TOKEN", "another")
    ok, found = told()
    assert (ok, found.startswith("MCP server 'tracker': ")) == (False, True)
    assert found.endswith("then try `harness mcp test tracker`")


def test_a_server_that_does_not_answer_is_one_line(
    asked: Harness, tracker: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACKER_TOKEN", "another")
    done = asked("mcp", "test", "tracker")
    assert done.returncode == 3
    assert done.stderr.startswith("error: MCP server 'tracker': ")
    monkeypatch.delenv("TRACKER_TOKEN")
    assert "'TRACKER_TOKEN', which is not set" in asked("mcp", "test", "tracker").stderr
