"""The tools as an agent calls them: directly, and over MCP."""

import asyncio
import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import httpx
import pytest

from contracts.tool import Toolbox, ToolCall
from memory.playbooks import tools
from memory.playbooks.library import Library
from memory.playbooks.recall import suggest_playbooks
from memory.playbooks.tools import STORE_UNAVAILABLE, ToolAccess, playbook_tools, run_playbook_tool
from memory.types import PlaybookChanges, PlaybookContent, RecallOptions
from providers.mcp_endpoint import serve_toolbox
from tests.support.memory_runs import call_as
from tests.support.waiting import LONG_S


def call(library: Library, name: str, **arguments: object) -> Mapping[str, object]:
    return call_as("r1", "draft", library, name, **arguments)


def test_an_agent_keeps_finds_changes_and_deletes_a_playbook(on_sqlite: Library) -> None:
    made = call(on_sqlite, "playbook_create", title="rotate keys", use_case="when due", notes="n")
    assert (made["source"], made["status"]) == ("run r1", "draft")
    found = call(on_sqlite, "playbook_search", query="rotate keys")["playbooks"]
    assert [one["id"] for one in found] == [made["id"]]  # type: ignore[attr-defined]  # JSON
    assert call(on_sqlite, "playbook_get", id=made["id"])["notes"] == "n"
    after = call(on_sqlite, "playbook_update", id=made["id"], notes="")
    assert (after["notes"], after["use_case"], after["version"]) == ("", "when due", 2)
    assert len(call(on_sqlite, "playbook_list")["playbooks"]) == 1  # type: ignore[arg-type]  # JSON
    assert call(on_sqlite, "playbook_delete", id=made["id"]) == {"deleted": True}
    assert call(on_sqlite, "playbook_delete", id=made["id"]) == {"deleted": False}


def test_the_names_of_the_seed_are_understood(on_sqlite: Library) -> None:
    assert call(on_sqlite, "playbook.list") == {"playbooks": [], "more": 0}


def test_a_failed_tool_call_returns_its_error_to_the_model(on_sqlite: Library) -> None:
    made = on_sqlite.create(PlaybookContent(title="x", status="draft"), source="run r1")
    on_sqlite.update(made.id, PlaybookChanges(notes="n"))
    assert "no playbook has the id" in str(call(on_sqlite, "playbook_get", id="gone")["error"])
    assert "no tool" in str(call(on_sqlite, "playbook_eat")["error"])
    assert "title" in str(call(on_sqlite, "playbook_create")["error"])
    stale = call(on_sqlite, "playbook_update", id=made.id, notes="m", expected_version=1)
    assert "version 2" in str(stale["error"])
    broken = ToolCall(id="1", name="playbook_get", arguments="{nonsense")
    assert "error" in json.loads(run_playbook_tool(on_sqlite, broken, run_id="r1"))


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("playbook_update", {"id": "x", "expected_version": 10**20}),
        ("playbook_update", {"id": "x", "expected_version": 10**14}),
        ("playbook_get", {"id": "\0"}),
        ("playbook_delete", {"id": "\0"}),
        ("playbook_list", {"category": "\0"}),
        ("playbook_search", {"query": "x", "tags": ["\0"]}),
        ("playbook_search", {"query": "x", "category": "\ud800"}),
        ("playbook_create", {"title": "y", "use_case": "z", "steps": [{"action": "\0"}]}),
    ],
)
def test_unstorable_arguments_return_an_error_to_the_model(
    library: Library, name: str, arguments: dict[str, object]
) -> None:
    library.create(PlaybookContent(title="x"))
    assert "error" in call(library, name, **arguments)


def test_a_draft_is_visible_only_to_the_run_that_created_it(library: Library) -> None:
    theirs = library.create(PlaybookContent(title="rotate keys by hand", status="draft"))
    evil = call_as(
        "evil", "draft", library, "playbook_create", title="rotate keys quickly", use_case="due"
    )
    good = library.create(PlaybookContent(title="rotate keys"))
    everyone: tuple[tuple[str, ToolAccess, dict[object, str]], ...] = (
        ("evil", "draft", {evil["id"]: "draft", good.id: "active"}),
        ("victim", "read", {good.id: "active"}),
        ("victim", "draft", {good.id: "active"}),
    )
    for run_id, access, seen in everyone:
        for name, asked in (("playbook_search", {"query": "rotate keys"}), ("playbook_list", {})):
            answer = call_as(run_id, access, library, name, **asked)
            told = {one["id"]: one["status"] for one in answer["playbooks"]}  # type: ignore[attr-defined]  # JSON
            assert told == seen
    as_victim = partial(call_as, "victim", "draft", library)
    assert "nobody has reviewed" in str(as_victim("playbook_get", id=evil["id"])["error"])
    for made in (evil["id"], theirs.id):
        assert "error" in as_victim("playbook_update", id=made, notes="n")
        assert "error" in as_victim("playbook_delete", id=made)
    as_evil = partial(call_as, "evil", "draft", library)
    assert as_evil("playbook_get", id=evil["id"])["status"] == "draft"
    assert as_evil("playbook_update", id=evil["id"], notes="n")["version"] == 2
    assert as_evil("playbook_delete", id=evil["id"]) == {"deleted": True}


def test_a_list_says_how_many_playbooks_it_omits(
    on_sqlite: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tools, "MAX_LISTED", 2)
    for number in range(5):
        on_sqlite.create(PlaybookContent(title=f"t{number}", category="a" if number else "b"))
    answers = [call(on_sqlite, "playbook_list", **asked) for asked in ({}, {"category": "b"})]
    assert [(len(a["playbooks"]), a["more"]) for a in answers] == [(2, 3), (1, 0)]  # type: ignore[arg-type]  # JSON


def test_searches_and_suggestions_use_the_configured_options(on_sqlite: Library) -> None:
    for title in ("rotate keys", "rotate certificates", "keys and certificates"):
        on_sqlite.create(PlaybookContent(title=title))
    asked = ToolCall(id="1", name="playbook_search", arguments='{"query": "renew"}')
    for far, limit, expected in ((2.0, 2, 2), (2.0, 5, 3), (0.1, 5, 0)):
        options = RecallOptions(max_distance=far, limit=limit)
        answer = json.loads(run_playbook_tool(on_sqlite, asked, run_id="r", options=options))
        assert len(answer["playbooks"]) == expected
        text = suggest_playbooks(on_sqlite, "renew", options=options)
        assert text.count("\n- ") == expected


def shelf(library: Library) -> Toolbox:
    return Toolbox(
        tools=playbook_tools(),
        run=lambda asked: run_playbook_tool(library, asked, run_id="r9"),
        prompt_section=lambda _: "",
        serve=serve_toolbox,
    )


def test_an_unavailable_store_reveals_nothing_of_the_host(
    on_sqlite: Library, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    on_sqlite.engine.dispose()
    (tmp_path / "harness.db").rename(tmp_path / "moved.db")
    (tmp_path / "harness.db").mkdir()
    about = {"name": "playbook_list", "arguments": {}}
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": about}
    with serve_toolbox(shelf(on_sqlite)) as served:
        headers = {
            "Authorization": f"Bearer {served.token}",
            "Accept": "application/json, text/event-stream",
        }
        answer = httpx.post(served.url, json=asked, headers=headers, timeout=LONG_S)
    result = answer.json()["result"]
    assert (result["isError"], STORE_UNAVAILABLE in result["content"][0]["text"]) == (True, True)
    assert str(tmp_path) not in answer.text
    assert str(tmp_path) in caplog.text


def test_an_agent_cannot_revive_an_archived_playbook(on_sqlite: Library) -> None:
    made = on_sqlite.create(PlaybookContent(title="x", status="draft"), source="run r1")
    on_sqlite.update(made.id, PlaybookChanges(status="archived"))
    assert "error" in call(on_sqlite, "playbook_update", id=made.id, status="active")
    call(on_sqlite, "playbook_update", id=made.id, notes="n")
    assert on_sqlite.get(made.id).status == "archived"


def test_every_tool_name_is_accepted_by_providers() -> None:
    assert all(tool.name.replace("_", "").isalpha() for tool in playbook_tools())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_tools_are_served_over_mcp(on_sqlite: Library) -> None:
    from mcp.client.session import ClientSession
    from mcp.client.streamable_http import streamable_http_client
    from mcp.shared._httpx_utils import create_mcp_http_client

    async def talk(url: str, token: str) -> tuple[list[str], str]:
        headers = {"Authorization": f"Bearer {token}"}
        async with (
            create_mcp_http_client(headers=headers) as client,
            streamable_http_client(url, http_client=client) as streams,
            ClientSession(streams[0], streams[1]) as session,
        ):
            await session.initialize()
            tools = await session.list_tools()
            made = await session.call_tool(
                "playbook_create", {"title": "rotate keys", "use_case": "due"}
            )
            return [tool.name for tool in tools.tools], made.content[0].text  # type: ignore[union-attr]  # text

    with serve_toolbox(shelf(on_sqlite)) as served:
        names, made = asyncio.run(talk(served.url, served.token))
        refused = httpx.post(
            served.url, json={}, headers={"Authorization": "Bearer wrong"}, timeout=LONG_S
        )
    assert names == [tool.name for tool in playbook_tools()]
    assert '"source": "run r9"' in made
    assert on_sqlite.get("rotate-keys").source == "run r9"
    assert refused.status_code == 401
