"""Agents of the settings: known everywhere as the built-in ones are."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from blueprints.dsl import agentic, blueprint
from blueprints.find import find_blueprint
from contracts.agents import AGENTS
from contracts.errors import BlueprintInvalid, SettingsInvalid
from contracts.files import write_atomically
from contracts.json import Json
from contracts.tool import Allowed, Denied, ToolCall
from flows.audit.policies import decide_agent_guard, decide_allowed_tools
from flows.config.settings import load_settings
from flows.execution.toolchain import agents_image
from flows.orchestration.compile import compile_blueprint
from flows.runs.trajectory_events import NodeRules, TrajectoryEvents
from flows.services.gateway import gateway_daemon
from nodes.agents.allowed_tools import allowed_tools_guard
from nodes.agents.table import agent_rows

MINE = """
[agents.mine]
packages = ["npm:mine@1.0.0"]
command = ["mine", "--acp"]

[agents.mine.tools]
run = "shell"
look = "read"

[agents.mine.env]
KEY = "$token"
"""

Write = Callable[[str], None]


@pytest.fixture
def write(own_home: Path) -> Write:
    """Writes `harness.toml`."""
    own_home.mkdir(exist_ok=True)
    return lambda text: write_atomically(own_home / "harness.toml", text)


def test_an_agent_of_the_settings_is_known_until_it_is_removed(write: Write) -> None:
    write(MINE)
    load_settings()
    assert [*agent_rows()] == [*AGENTS, "mine"]
    assert agent_rows()["mine"].command == ("mine", "--acp")
    assert agents_image(["mine"]).packages == ("npm:mine@1.0.0",)
    write("")
    load_settings()
    assert [*agent_rows()] == [*AGENTS]


def test_its_calls_are_guarded_by_its_own_table(write: Write) -> None:
    write(MINE)
    load_settings()
    made = allowed_tools_guard(["shell(ls*)"], "mine")
    assert made(call("run", command="ls -l")) == Allowed()
    assert isinstance(made(call("run", command="rm -r .")), Denied)
    assert isinstance(made(call("look")), Denied)
    assert isinstance(made(call("fly")), Denied)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("agents.mine]", "agents.codex]", "'agents.codex.*codex is a built-in agent"),
        ("agents.mine]", "agents.My_Own]", "'agents.My_Own.*should match pattern"),
        ('command = ["mine", "--acp"]', "", "'agents.mine.command': Field required"),
        ('["mine", "--acp"]', "[]", "'agents.mine.command': Tuple should have at least 1 item"),
        ('run = "shell"', 'run = "bash"', "'agents.mine.tools.run' is 'bash': Input should be"),
        (
            "$token",
            "$secret",
            "'agents.mine.env.KEY': .*variables are \\$home, \\$url and \\$to",
        ),
        ("$token", "5 $", "'agents.mine.env.KEY': .* write \\$\\$ for a dollar sign"),
        ("packages", "package", "'agents.mine.package': Extra inputs are not permitted"),
        ("agents.mine.tools", "agents.mine.tool", "'agents.mine.tools': Field required"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(write: Write, old: str, new: str, told: str) -> None:
    write(MINE.replace(old, new))
    with pytest.raises(SettingsInvalid, match=told) as refused:
        load_settings()
    assert "\n" not in str(refused.value)


def test_blueprints_and_forms_may_name_it(write: Write, tmp_path: Path) -> None:
    head = "---\nname: a\ndescription: b\nagent: mine\nnodes:\n  - name: work\n---\n"
    text = f"{head}## work\nWork.\n"
    (tmp_path / "a.md").write_text(text)
    with pytest.raises(BlueprintInvalid, match=r"agent should be 'native', .*, not 'mine'"):
        find_blueprint(str(tmp_path / "a.md"))
    with pytest.raises(BlueprintInvalid, match="agent='mine'"):
        agentic("work", "Works", prompt=lambda ctx: "Work.", agent="mine")
    write(MINE)
    load_settings()
    assert find_blueprint(str(tmp_path / "a.md")).nodes[0].agent == "mine"  # type: ignore[union-attr]  # an agent
    node = agentic("work", "Works", prompt=lambda ctx: "Work.", agent="mine")
    flow = compile_blueprint(blueprint("a", "b", [node]), lambda: None)  # type: ignore[arg-type, return-value]  # not executed
    assert flow.parameters.properties["agent"]["enum"] == ["configured", *AGENTS, "mine"]
    assert flow.validate_parameters({"repo": "/srv/git/some", "agent": "mine"})


def test_recorded_decisions_are_repeated_after_it_is_removed(write: Write) -> None:
    write(MINE)
    load_settings()
    rules = NodeRules(agent="mine", allowed_tools=("shell",))
    events = TrajectoryEvents(run_id="r1", node="fix", rules=rules, inputs=())
    decision = {"kind": "decision", "call": "c1", "verdict": "allowed"}
    function = {"name": "run", "arguments": '{"command": "ls"}'}
    said = {"role": "assistant", "tool_calls": [{"id": "c1", "function": function}]}
    events.hear(decision)
    drafts = events.hear({"kind": "reply", "model": "m", "message": said})
    [question] = [draft.body["question"] for draft in drafts if draft.kind == "decision"]
    write("")
    load_settings()
    assert isinstance(question, dict)
    assert decide_allowed_tools(question) == Allowed()
    bounds: dict[str, Json] = {"taint": [], "protected": [], "secret": [], "wait_s": 0}
    assert decide_agent_guard({**question, "bounds": bounds, "read": []}) == Allowed()


def test_a_gateway_that_does_not_know_it_is_replaced(write: Write) -> None:
    before = gateway_daemon(load_settings()).version()
    assert gateway_daemon(load_settings()).version() == before
    write(MINE)
    assert gateway_daemon(load_settings()).version() != before


def call(name: str, **arguments: object) -> ToolCall:
    return ToolCall(id="c", name=name, arguments=json.dumps(arguments))
