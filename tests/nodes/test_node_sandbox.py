"""The sandbox as one node sees it."""

from contracts.sandbox import Command
from nodes.node_sandbox import MAX_LINE, MAX_LIVE_LINES, LiveLines, NodeSandbox
from sandbox.scripted import ScriptedSandbox
from tests.support.waiting import LONG_S
from tests.support.workspace import folder


def in_node(
    sandbox: ScriptedSandbox,
    lines: list[str],
    *,
    env: dict[str, str] | None = None,
    limit: float | None = None,
) -> NodeSandbox:
    return NodeSandbox(sandbox, env=env or {}, timeout_s=limit, sink=lines.append)


def test_every_command_gets_the_runs_env(sandbox: ScriptedSandbox) -> None:
    inside = in_node(sandbox, [], env={"COLOUR": "green"})
    assert inside.exec(Command(argv=("sh", "-c", "echo $COLOUR"))).text == "green"


def test_a_commands_own_env_wins(sandbox: ScriptedSandbox) -> None:
    inside = in_node(sandbox, [], env={"COLOUR": "green"})
    command = Command(argv=("sh", "-c", "echo $COLOUR"), env={"COLOUR": "red"})
    assert inside.exec(command).text == "red"


def test_output_becomes_live_lines(sandbox: ScriptedSandbox) -> None:
    lines: list[str] = []
    in_node(sandbox, lines).exec(Command(argv=("printf", "one\\ntwo")))
    assert lines == ["one", "two"]


def test_live_lines_have_no_escapes(sandbox: ScriptedSandbox) -> None:
    lines: list[str] = []
    in_node(sandbox, lines).exec(Command(argv=("printf", "\\033[31mred\\033[0m\\n")))
    assert lines == ["red"]


def test_a_command_is_killed_at_the_nodes_deadline(sandbox: ScriptedSandbox) -> None:
    result = in_node(sandbox, [], limit=0.2).exec(Command(argv=("sleep", "900")))
    assert result.timed_out


def test_after_the_deadline_no_command_is_started(sandbox: ScriptedSandbox) -> None:
    inside = in_node(sandbox, [], limit=0.05)
    inside.exec(Command(argv=("sleep", "900")))
    inside.exec(Command(argv=("touch", "started")))
    assert not (folder(sandbox) / "started").exists()


def test_the_shorter_of_the_two_limits_holds(sandbox: ScriptedSandbox) -> None:
    inside = in_node(sandbox, [], limit=LONG_S)
    assert inside.exec(Command(argv=("sleep", "900"), timeout_s=0.1)).timed_out


def test_lines_split_over_chunks_are_put_together() -> None:
    lines: list[str] = []
    live = LiveLines(lines.append)
    live.feed("stdout", b"he")
    live.feed("stderr", b"oops\n")
    live.feed("stdout", b"llo\n")
    assert lines == ["oops", "hello"]


def test_a_flood_of_lines_is_cut_short() -> None:
    lines: list[str] = []
    LiveLines(lines.append).feed("stdout", b"x\n" * (MAX_LIVE_LINES * 3))
    assert len(lines) == MAX_LIVE_LINES


def test_a_line_without_end_is_cut_short() -> None:
    lines: list[str] = []
    live = LiveLines(lines.append)
    for _ in range(100):
        live.feed("stdout", b"x" * 1000)
    live.close()
    assert [len(line) for line in lines] == [MAX_LINE]


def test_files_go_straight_through(sandbox: ScriptedSandbox) -> None:
    inside = in_node(sandbox, [])
    inside.upload_files({"a/b.txt": b"hi"})
    assert inside.read_file("a/b.txt") == b"hi"
