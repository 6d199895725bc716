"""The playbook tools that agents get, by setting."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from blueprints.dsl import agentic, blueprint
from contracts.tool import PLAYBOOK_TOOLS, Toolbox, ToolCall
from flows.config.memory import EmbeddingSettings, MemorySettings, MemoryTools, load_memory_settings
from flows.execution.engine import run_blueprint
from flows.recall.library import configured_library
from flows.recall.playbooks import run_memory
from flows.runs.request import ResolvedRequest
from memory.playbooks.library import Library
from memory.playbooks.tools import playbook_tools
from memory.types import PlaybookContent
from tests.support.flows import scripted_shop

WORDS = MemorySettings(embedding=EmbeddingSettings(provider="none"), holdout_share=0.0)
Ask = Callable[..., ResolvedRequest]


def having(tools: MemoryTools, **changes: object) -> MemorySettings:
    return WORDS.model_copy(update={"tools": tools, **changes})


def call(box: Toolbox | None, name: str, **arguments: object) -> dict[str, object]:
    assert box is not None
    answer = json.loads(box.run(ToolCall(id="c", name=name, arguments=json.dumps(arguments))))
    assert isinstance(answer, dict)
    return answer


@pytest.fixture
def opened(own_home: Path) -> Library:
    with configured_library(WORDS) as made:
        return made


@pytest.mark.parametrize(
    ("tools", "names"),
    [
        ("read", {"playbook_search", "playbook_get", "playbook_list"}),
        ("draft", set(PLAYBOOK_TOOLS)),
    ],
)
def test_only_the_tools_that_the_settings_allow_are_offered(
    opened: Library, tools: MemoryTools, names: set[str]
) -> None:
    with run_memory(having(tools)).tools("r1") as ask:
        box = ask()
        assert box is not None
        assert {tool.name for tool in box.tools} == names
        refused = call(box, "playbook_create", title="x", use_case="y")
    assert ("error" in refused) == (tools == "read")


def test_the_old_setting_write_allows_drafts_only(
    opened: Library, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    opened.create(PlaybookContent(title="rotate keys"))
    monkeypatch.setenv("HARNESS_MEMORY_TOOLS", "write")
    monkeypatch.setenv("HARNESS_MEMORY_EMBEDDING__PROVIDER", "none")
    options = load_memory_settings()
    assert "'memory.playbooks.tools' is 'write'" in caplog.text
    with run_memory(options).tools("r1") as ask:
        box = ask()
        made = call(box, "playbook_create", title="rotate keys and obey", use_case="when due")
        assert made["status"] == "draft"
        assert "only a person" in str(call(box, "playbook_update", id="rotate-keys", notes="obey"))
        assert "only a person" in str(call(box, "playbook_delete", id="rotate-keys"))
    assert "obey" not in run_memory(options).surface("r2", "rotate keys").text


def test_without_the_setting_there_are_no_tools(opened: Library) -> None:
    assert MemorySettings().tools == "off"
    for options in (WORDS, having("draft", enabled=False)):
        with run_memory(options).tools("r1") as ask:
            assert ask() is None


def test_all_agents_use_the_same_tool_names() -> None:
    assert {tool.name for tool in playbook_tools()} == set(PLAYBOOK_TOOLS)


def test_a_playbook_of_an_agent_is_a_draft_that_no_run_is_shown(opened: Library) -> None:
    opened.create(PlaybookContent(title="rotate keys"))
    with run_memory(having("draft")).tools("r1") as ask:
        box = ask()
        made = call(box, "playbook_create", title="rotate keys better", use_case="when due")
        assert made["status"] == "draft"
        assert "only a person" in str(call(box, "playbook_update", id="rotate-keys", notes="n"))
        assert "only a person" in str(call(box, "playbook_delete", id="rotate-keys"))
        assert call(box, "playbook_update", id=made["id"], notes="n")["notes"] == "n"
        assert box is not None
        assert str(made["id"]) not in box.prompt_section("rotate keys")
    assert "keys better" not in run_memory(WORDS).surface("r2", "rotate keys").text
    assert "better" in str(opened.list())


def test_a_held_out_run_has_no_tools(opened: Library) -> None:
    opened.create(PlaybookContent(title="rotate keys"))
    options = having("draft", holdout_share=1.0)
    for number in range(21):
        last = run_memory(options).surface(f"r{number}", "rotate keys")
    assert last.held_out
    with run_memory(options).tools("r20") as ask:
        assert ask() is None
    with run_memory(options).tools("r0") as ask:
        assert ask() is not None


def test_a_run_continues_without_tools_when_memory_is_unavailable(opened: Library) -> None:
    away = having("draft", data="postgresql://x@127.0.0.1:9/none")
    with run_memory(away).tools("r1") as ask:
        assert ask() is None


def test_the_native_agent_saves_a_playbook_in_a_run(
    own_home: Path, ask: Ask, model: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_MEMORY_TOOLS", "draft")
    monkeypatch.setenv("HARNESS_MEMORY_EMBEDDING__PROVIDER", "none")
    arguments = json.dumps({"title": "greet the world", "use_case": "when asked"})
    asked = {"function": {"name": "playbook_create", "arguments": arguments}}
    script = model({"content": "", "tool_calls": [{**asked, "id": "1", "type": "function"}]}, DONE)
    node = agentic("greet", "greets", prompt=lambda _: "greet")
    armed = scripted_shop()
    run_blueprint(ask(blueprint("greet", "g", [node]), model=script), armed, run_id="abcd1234")
    with configured_library(WORDS) as made:
        kept = made.get("greet-the-world")
    assert (kept.status, kept.source) == ("draft", "run abcd1234")


DONE = {"content": "Done."}
