import json
from math import inf
from pathlib import Path

import pytest

from contracts.errors import SandboxLost
from contracts.sandbox import Command, ExecResult, OnOutput
from contracts.tool import ToolCall
from nodes.agents.native_tools import (
    MAX_TOOL_OUTPUT,
    CallMalformed,
    ToolContext,
    native_tools,
    parse_call,
    run_tool,
)
from nodes.node_sandbox import NodeSandbox
from sandbox.scripted import ScriptedSandbox
from tests.support.waiting import growing_limits


def do(sandbox: ScriptedSandbox, tool: str, **arguments: object) -> str:
    return run(ToolContext(sandbox=sandbox, left_s=lambda: inf), tool, arguments)


def run(bench: ToolContext, tool: str, arguments: dict[str, object]) -> str:
    call = ToolCall(id="c", name=tool, arguments=json.dumps(arguments))
    return run_tool(parse_call(call), bench).text


def test_there_are_five_tools_with_plain_schemas() -> None:
    tools = {tool.name: tool for tool in native_tools()}
    assert list(tools) == ["bash", "read_file", "write_file", "edit_file", "search"]
    assert tools["edit_file"].parameters["required"] == ["path", "old", "new"]
    assert tools["edit_file"].parameters["additionalProperties"] is False
    assert "title" not in json.dumps([dict(tool.parameters) for tool in tools.values()])
    assert all(tool.description for tool in tools.values())


def test_bash_returns_exit_code_and_both_streams_in_order(sandbox: ScriptedSandbox) -> None:
    said = do(sandbox, "bash", command="echo one; echo two >&2; echo three; exit 3")
    assert said == "exit 3\none\ntwo\nthree"


def test_bash_keeps_the_path_of_the_node(sandbox: ScriptedSandbox) -> None:
    env = {"PATH": "/odd:/usr/bin:/bin"}
    inside = NodeSandbox(sandbox, env=env, timeout_s=None, sink=lambda _: None)
    bench = ToolContext(sandbox=inside, left_s=lambda: inf)
    assert run(bench, "bash", {"command": "echo $PATH"}) == "exit 0\n/odd:/usr/bin:/bin"


def test_a_command_without_output_is_marked(sandbox: ScriptedSandbox) -> None:
    assert do(sandbox, "bash", command="true") == "exit 0\n(no output)"


def test_a_command_is_stopped_at_its_time_limit(sandbox: ScriptedSandbox) -> None:
    for limit_s in growing_limits(0.3):
        said = do(sandbox, "bash", command="echo begun; sleep 900", timeout_s=limit_s)
        assert said.startswith("stopped, its time was over")
        if said.endswith("begun"):
            break


def test_no_command_outlives_the_agent(sandbox: ScriptedSandbox) -> None:
    bench = ToolContext(sandbox=sandbox, left_s=lambda: 0.3)
    said = run(bench, "bash", {"command": "sleep 900", "timeout_s": 600})
    assert said.startswith("stopped")


def test_read_file_numbers_lines(sandbox: ScriptedSandbox, work_dir: Path) -> None:
    (work_dir / "a.txt").write_text("one\ntwo\nthree\n")
    assert do(sandbox, "read_file", path="a.txt") == "1\tone\n2\ttwo\n3\tthree"
    part = do(sandbox, "read_file", path="a.txt", offset=2, limit=1)
    assert part == "2\ttwo\n(lines 2 to 2 of 3; offset=3 gives more)"


def test_a_long_file_is_read_whole_in_pieces(sandbox: ScriptedSandbox, work_dir: Path) -> None:
    every = [f"line {number} {'x' * (number % 90)}" for number in range(1, 2001)]
    (work_dir / "long.txt").write_text("\n".join(every))
    seen: list[str] = []
    while len(seen) < len(every):
        piece = do(sandbox, "read_file", path="long.txt", offset=len(seen) + 1)
        assert len(piece) <= MAX_TOOL_OUTPUT
        seen += [line.partition("\t")[2] for line in piece.split("\n") if "\t" in line]
    assert seen == every


def test_a_long_line_says_how_much_of_it_is_missing(
    sandbox: ScriptedSandbox, work_dir: Path
) -> None:
    (work_dir / "one.json").write_text("x" * 1_000_000)
    assert do(sandbox, "read_file", path="one.json").endswith("[… 998000 characters left out …]")


@pytest.mark.parametrize(
    ("content", "arguments", "told"),
    [
        (b"", {}, "(the file is empty)"),
        (b"a\n", {"offset": 9}, "error: 'f' has 1 lines, line 9 is past it"),
        (b"a\0b", {}, "error: 'f' is binary (3 bytes): look at it with bash"),
    ],
)
def test_read_file_reports_unreadable_content(
    sandbox: ScriptedSandbox,
    work_dir: Path,
    content: bytes,
    arguments: dict[str, object],
    told: str,
) -> None:
    (work_dir / "f").write_bytes(content)
    assert do(sandbox, "read_file", path="f", **arguments) == told


def test_file_errors_are_output_for_the_model(sandbox: ScriptedSandbox, work_dir: Path) -> None:
    (work_dir / "folder").mkdir()
    assert do(sandbox, "read_file", path="no.py").startswith("error: wanted to read 'no.py'")
    said = do(sandbox, "write_file", path="folder", content="x")
    assert said.startswith("error: wanted to write 'folder'")


def test_write_file_creates_folders(sandbox: ScriptedSandbox, work_dir: Path) -> None:
    assert do(sandbox, "write_file", path="a/b.txt", content="ü") == "wrote 2 bytes to a/b.txt"
    assert (work_dir / "a/b.txt").read_text() == "ü"


def test_edit_file_replaces_one_piece_and_no_other_byte(
    sandbox: ScriptedSandbox, work_dir: Path
) -> None:
    (work_dir / "f").write_bytes(b"\xff one\r\ntwo\n")
    assert do(sandbox, "edit_file", path="f", old="two", new="2") == "edited f at line 2"
    assert (work_dir / "f").read_bytes() == b"\xff one\r\n2\n"


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("a", "b", "old stands 2 times in 'f': add lines"),
        ("zzz", "b", "old is not in 'f': read the file again"),
        ("a\nb", "c", r"old is not in 'f': its lines end in \r\n"),
        ("a", "a", "old and new are the same"),
    ],
)
def test_a_failed_edit_has_a_reason(
    sandbox: ScriptedSandbox, work_dir: Path, old: str, new: str, told: str
) -> None:
    (work_dir / "f").write_bytes(b"a\r\nb a\r\n")
    assert do(sandbox, "edit_file", path="f", old=old, new=new).startswith(f"error: {told}")
    assert (work_dir / "f").read_bytes() == b"a\r\nb a\r\n"


def test_search_gives_path_line_and_text(sandbox: ScriptedSandbox, work_dir: Path) -> None:
    (work_dir / "a.py").write_text("import os\nx = 1\n")
    (work_dir / "b.txt").write_text("x = 1\n")
    assert do(sandbox, "search", pattern="^x = [0-9]+", glob="*.py") == "./a.py:2:x = 1"


def test_an_invalid_search_pattern_is_an_error(sandbox: ScriptedSandbox, work_dir: Path) -> None:
    (work_dir / "a.py").write_text("x\n")
    assert do(sandbox, "search", pattern="nowhere") == "no match"
    assert do(sandbox, "search", pattern="(").startswith("error: search failed, exit 2")


def test_a_pattern_that_looks_like_an_option_is_a_pattern(
    sandbox: ScriptedSandbox, work_dir: Path
) -> None:
    (work_dir / "a.py").write_text("call(--force)\n")
    assert do(sandbox, "search", pattern="--force") == "./a.py:1:call(--force)"


@pytest.mark.parametrize(
    ("tool", "arguments", "told"),
    [
        ("fly", "{}", "no tool 'fly'; there are bash, read_file"),
        ("bash", "{oops", "bad arguments for bash: Invalid JSON"),
        ("bash", "[]", "bad arguments for bash: Input should be an object"),
        ("bash", "", "bad arguments for bash: command: Field required"),
        ("bash", '{"command": "ls", "cwd": "/"}', "bad arguments for bash: cwd: Extra inputs"),
        ("bash", '{"command": "a\\u0000b"}', "command: Value error, must not hold a NUL"),
        ("bash", '{"command": "\\ud800"}', "bad arguments for bash: Invalid JSON"),
        ("bash", '{"command": "ls", "timeout_s": 1e9}', "timeout_s: Input should be less"),
        ("bash", '{"command": "ls", "timeout_s": "NaN"}', "timeout_s: Input should be"),
        ("read_file", '{"path": ""}', "path: String should have at least 1 character"),
    ],
)
def test_malformed_calls_are_explained(tool: str, arguments: str, told: str) -> None:
    with pytest.raises(CallMalformed) as caught:
        parse_call(ToolCall(id="c", name=tool, arguments=arguments))
    assert told in str(caught.value)


class LostSandbox(ScriptedSandbox):
    def exec(self, command: Command, on_output: OnOutput | None = None) -> ExecResult:
        raise SandboxLost("gone")


def test_a_lost_sandbox_raises() -> None:
    with pytest.raises(SandboxLost):
        do(LostSandbox(), "bash", command="ls")
