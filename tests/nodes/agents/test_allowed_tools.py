import json
import subprocess
from pathlib import Path

import pytest

from contracts.agents import AGENTS
from contracts.errors import BlueprintInvalid
from contracts.tool import Allowed, Denied, ToolCall
from nodes.agents.allowed_tools import (
    allowed_native_tools,
    allowed_tool_names,
    allowed_tools_guard,
    check_allowed_tools,
    parse_allowed_tools,
)
from nodes.agents.table import agent_rows

PATTERN = ["shell(git diff*)"]


def call(tool: str, **arguments: object) -> ToolCall:
    return ToolCall(id="c", name=tool, arguments=json.dumps(arguments))


@pytest.mark.parametrize(
    ("allowed", "offered"),
    [
        (None, ["bash", "read_file", "write_file", "edit_file", "search"]),
        ([], []),
        (["read", "search"], ["read_file", "search"]),
        (PATTERN, ["bash"]),
        (["edit", "shell"], ["bash", "edit_file"]),
    ],
)
def test_only_allowed_tools_are_offered(allowed: list[str] | None, offered: list[str]) -> None:
    assert [tool.name for tool in allowed_native_tools(allowed)] == offered


def test_a_denial_lists_the_allowed_tools() -> None:
    decision = allowed_tools_guard(["read", *PATTERN])(call("write_file", path="a", content="b"))
    assert decision == Denied(
        reason="write_file is not allowed here; allowed: read, shell(git diff*)"
    )


def test_a_tool_without_a_rule_is_denied() -> None:
    assert isinstance(allowed_tools_guard(None)(call("send_email")), Denied)


def test_shell_alone_allows_every_command() -> None:
    assert allowed_tools_guard(["shell"])(call("bash", command="a | b; c > d")) == Allowed()


@pytest.mark.parametrize("command", ["git diff", "git diff --stat", "  git diff 'a b' \n"])
def test_a_matching_command_is_allowed(command: str) -> None:
    assert allowed_tools_guard(PATTERN)(call("bash", command=command)) == Allowed()


SNEAKY = [
    "git diff; touch pwned",
    "git diff && touch pwned",
    "git diff || touch pwned",
    "git diff | tee pwned",
    "git diff & touch pwned",
    "git diff\ntouch pwned",
    "git diff\r\ntouch pwned",
    "git diff $(touch pwned)",
    "git diff `touch pwned`",
    'git diff "$(touch pwned)"',
    "git diff > pwned",
    "git diff <(touch pwned)",
    "git diff ${x:=`touch pwned`}",
    "(git diff)",
    "touch pwned; git diff",
    "git  diff",
    "GIT DIFF",
    "",
]


@pytest.mark.parametrize("command", SNEAKY)
def test_a_pattern_is_not_bypassed(command: str) -> None:
    decision = allowed_tools_guard(PATTERN)(call("bash", command=command))
    assert isinstance(decision, Denied)


def test_the_sneaky_commands_work_in_a_real_shell(tmp_path: Path) -> None:
    done = 0
    for number, command in enumerate(SNEAKY):
        folder = tmp_path / str(number)
        folder.mkdir()
        subprocess.run(["bash", "-c", command], cwd=folder, capture_output=True, check=False)
        done += (folder / "pwned").exists()
    assert done >= 11


def test_a_denied_command_explains_the_allowed_form() -> None:
    decision = allowed_tools_guard(PATTERN)(call("bash", command="git diff | cat"))
    assert isinstance(decision, Denied)
    assert "Write one plain command without ; & |" in decision.reason


def test_a_pattern_may_name_its_own_pipe() -> None:
    guard = allowed_tools_guard(["shell(git log * | head)"])
    assert guard(call("bash", command="git log -p | head")) == Allowed()
    assert isinstance(guard(call("bash", command="git log | sh | head")), Denied)


@pytest.mark.parametrize(
    ("pattern", "command"),
    [
        ("a*b*c", "ab--b-c-c"),
        ("*ab*ab", "aabab"),
        ("a?*?c*d", "axbccd"),
        ("*;x*;x", "a;x;x"),
        ("**a", "ba"),
        ("a*", "a"),
    ],
)
def test_patterns_with_several_stars_match(pattern: str, command: str) -> None:
    guard = allowed_tools_guard([f"shell({pattern})"])
    assert guard(call("bash", command=command)) == Allowed()
    assert isinstance(guard(call("bash", command=f"{command}|{command}")), Denied)


def test_a_command_of_a_megabyte_is_matched_at_once() -> None:
    guard = allowed_tools_guard(["shell(a*b*b*c)"])
    assert isinstance(guard(call("bash", command="ab" * 500_000)), Denied)
    assert guard(call("bash", command="ab" * 500_000 + "c")) == Allowed()


def test_duplicate_keys_do_not_bypass_the_guard() -> None:
    twice = '{"command": "git diff", "command": "touch pwned"}'
    decision = allowed_tools_guard(PATTERN)(ToolCall(id="c", name="bash", arguments=twice))
    assert isinstance(decision, Denied)


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ("fly", "unknown allowed tool 'fly'; known: read, write, edit, search, shell"),
        ("Bash", "unknown allowed tool 'Bash'"),
        ("", "unknown allowed tool ''"),
        ("shell(git", "unknown allowed tool"),
        ("shell()", "the pattern is empty"),
        ("read(src/*)", "only shell takes a pattern"),
    ],
)
def test_an_invalid_entry_is_refused(entry: str, told: str) -> None:
    with pytest.raises(BlueprintInvalid) as caught:
        parse_allowed_tools([entry])
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("agent", "tool", "argument"),
    [
        ("claude-code", "Bash", "command"),
        ("pi", "bash", "command"),
        ("opencode", "bash", "command"),
        ("codex", "exec_command", "cmd"),
    ],
)
def test_patterns_hold_for_every_agent(agent: str, tool: str, argument: str) -> None:
    guard = allowed_tools_guard(PATTERN, agent)
    assert guard(call(tool, **{argument: "git diff --stat"}, description="d")) == Allowed()
    for command in SNEAKY:
        assert isinstance(guard(call(tool, **{argument: command})), Denied)
    for arguments in ("{oops", "[]", "{}", '{"command": 3}'):
        assert isinstance(guard(ToolCall(id="c", name=tool, arguments=arguments)), Denied)


def test_a_harmless_command_covers_no_other_one_beside_it() -> None:
    guard = allowed_tools_guard(PATTERN, "codex")
    assert isinstance(guard(call("exec_command", command="git diff", cmd="rm -rf .")), Denied)
    assert isinstance(guard(call("write_stdin", session_id=1, chars="rm -rf .\n")), Denied)


@pytest.mark.parametrize(
    ("agent", "allowed", "names"),
    [
        ("claude-code", ["read", "search"], ("Read", "Grep", "Glob", "LS")),
        ("claude-code", PATTERN, ("Bash",)),
        ("pi", ["write", "edit"], ("write", "edit")),
        ("pi", ["search"], ("grep", "find", "ls")),
        ("pi", [], ()),
    ],
)
def test_each_agent_is_offered_its_own_names(
    agent: str, allowed: list[str], names: tuple[str, ...]
) -> None:
    assert allowed_tool_names(agent, allowed) == names


def test_a_tool_of_another_agent_is_denied() -> None:
    assert isinstance(allowed_tools_guard(None, "claude-code")(call("bash", command="ls")), Denied)
    assert isinstance(allowed_tools_guard(None, "claude-code")(call("WebFetch", url="x")), Denied)


def test_every_agent_has_a_table_of_tools() -> None:
    assert set(agent_rows()) == set(AGENTS)


def test_an_unknown_agent_is_refused() -> None:
    with pytest.raises(BlueprintInvalid, match="unknown agent 'cody'; known: native, claude-code"):
        check_allowed_tools("cody", None)
