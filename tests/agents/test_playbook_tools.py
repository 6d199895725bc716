"""The shipped agents use the playbook tools through a port of the sandbox."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from contracts.agents import CLI_AGENTS
from contracts.run import DecisionCounts
from contracts.tool import Toolbox
from flows.config.memory import EmbeddingSettings, MemorySettings
from flows.recall.tools import run_toolbox
from memory.playbooks.library import Library, open_library
from memory.types import PlaybookContent
from nodes.agents.table import agent_rows
from providers.open_runs import TOKEN_PREFIX
from sandbox.container import DockerSandbox
from tests.support.agent_calls import call, reply, shell
from tests.support.agents import Bench
from tests.support.hostile import inside, set_up_hostile_repository

pytestmark = pytest.mark.docker
TITLE = "make a failing test of hours pass"
WAYS = ("claude-code", "codex", "gemini", "pi")
"""Agents that are given tools in different ways: a file, the protocol, commands, an extension."""


def name_of(agent: str, tool: str) -> str:
    return f"{agent_rows()[agent].host_prefix}{tool}"


@pytest.fixture(autouse=True)
def repository(agents_sandbox: DockerSandbox) -> None:
    set_up_hostile_repository(agents_sandbox)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Library]:
    with open_library(tmp_path / "playbooks.db", index=tmp_path / "index") as opened:
        opened.create(PlaybookContent(title=TITLE, process="Look at OPENS."))
        yield opened


@pytest.fixture
def box(store: Library, own_home: Path, tmp_path: Path) -> Iterator[Toolbox]:
    options = MemorySettings(
        data=str(tmp_path / "playbooks.db"), embedding=EmbeddingSettings(provider="none")
    )
    with run_toolbox(options, "draft", "r1") as ask:
        found = ask()
        assert found is not None
        yield found


@pytest.mark.parametrize("agent", sorted(CLI_AGENTS))
def test_an_agent_searches_and_creates_playbooks(
    bench: Bench, store: Library, box: Toolbox, agent: str
) -> None:
    search, create = (
        f"{agent_rows()[agent].host_prefix}playbook_{verb}" for verb in ("search", "create")
    )
    result = bench(
        agent,
        reply("", call(search, {"query": "failing test"})),
        reply("", call(create, {"title": "mend hours", "use_case": "when they are wrong"})),
        reply("Kept."),
        toolbox=box,
    )
    assert result.error is None
    assert result.decisions == DecisionCounts(allowed=2)
    kept = store.get("mend-hours")
    assert (kept.status, kept.source) == ("draft", "run r1")
    assert TITLE in str(bench.events("result")[0])
    assert TITLE in str(bench.events("request")[0]["messages"])
    assert inside(bench.sandbox, "ls /tmp/hooked").startswith("ls: cannot access")


@pytest.mark.parametrize("agent", WAYS)
def test_a_node_that_does_not_allow_playbooks_has_no_tools_for_them(
    bench: Bench, store: Library, box: Toolbox, agent: str
) -> None:
    asked = call(
        f"{agent_rows()[agent].host_prefix}playbook_create",
        {"title": "mend hours", "use_case": "x"},
    )
    result = bench(agent, reply("", asked), reply("So be it."), toolbox=box, allowed=("read",))
    assert result.decisions == DecisionCounts(denied=1)
    assert [playbook.title for playbook in store.list()] == [TITLE]
    assert "playbook" not in json.dumps(bench.events("request")[0]["messages"])


@pytest.mark.parametrize("agent", WAYS)
def test_the_token_is_in_no_argv(bench: Bench, box: Toolbox, agent: str) -> None:
    look = "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n' > seen"
    bench(agent, reply("", shell(agent, look)), reply("Looked."), toolbox=box)
    assert TOKEN_PREFIX not in inside(bench.sandbox, "cat seen")
