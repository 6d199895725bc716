"""Ready commands, and how their ends are told."""

import pytest

from contracts.errors import OptionInvalid
from contracts.run import NodeResult
from contracts.sandbox import Command, ExecResult
from nodes.commands import command, command_result, parse_command_line, shell
from nodes.types import NodeFunction
from sandbox.scripted import ScriptedSandbox
from tests.support.workspace import context, folder


def run(work: NodeFunction, sandbox: ScriptedSandbox) -> NodeResult:
    return work(context(sandbox), sandbox)


def test_a_command_that_exits_0_succeeds_with_its_output(sandbox: ScriptedSandbox) -> None:
    assert run(command("echo", "a  b"), sandbox) == NodeResult.success("a  b")


def test_a_failed_command_keeps_both_streams(sandbox: ScriptedSandbox) -> None:
    assert run(shell("echo out; echo err >&2; exit 3"), sandbox).output == "out\nerr"


def test_a_failed_command_names_itself_and_its_exit_code(sandbox: ScriptedSandbox) -> None:
    assert run(command("false"), sandbox).error == "'false' failed with exit code 1"


def test_an_argument_is_never_split_or_expanded(sandbox: ScriptedSandbox) -> None:
    assert run(command("printf", "%s", "$HOME *; x"), sandbox).output == "$HOME *; x"


def test_a_missing_program_could_not_be_started(sandbox: ScriptedSandbox) -> None:
    assert "could not be started" in (run(command("no-such-program"), sandbox).error or "")


def test_a_command_over_its_time_limit_timed_out(sandbox: ScriptedSandbox) -> None:
    error = run(command("sleep", "900", timeout_s=0.1), sandbox).error
    assert error == "'sleep 900' timed out after 0.1 s"


def test_a_kill_for_memory_is_in_the_error() -> None:
    result = command_result(ExecResult(exit_code=137, out_of_memory=True), ("make", "test"))
    assert result.error == "'make test' was killed: the sandbox is out of memory"


def test_a_kill_for_disk_space_is_in_the_error() -> None:
    result = command_result(ExecResult(exit_code=137, out_of_disk=True), ("make", "test"))
    assert result.error == "'make test' was killed: the sandbox is out of disk"


@pytest.mark.parametrize("timed_out", [True, False])
def test_a_reached_process_limit_is_in_the_error(timed_out: bool) -> None:
    ended = ExecResult(exit_code=137, timed_out=timed_out, out_of_processes=True)
    error = command_result(ended, ("make", "test")).error or ""
    assert error.endswith(": the sandbox's limit of processes was reached")


def test_a_signal_that_may_be_another_commands_is_in_the_error() -> None:
    result = command_result(ExecResult(exit_code=137, disturbed=True), ("make", "test"))
    assert result.error == (
        "'make test' failed with exit code 137: killed by SIGKILL, "
        "maybe by a command that ran at the same time"
    )


def test_a_command_runs_in_the_folder_given(sandbox: ScriptedSandbox) -> None:
    (folder(sandbox) / "inner").mkdir()
    assert run(command("pwd", cwd="inner"), sandbox).output == str(folder(sandbox) / "inner")


def test_a_command_gets_the_env_given(sandbox: ScriptedSandbox) -> None:
    assert run(shell("echo $COLOUR", env={"COLOUR": "green"}), sandbox).output == "green"


def test_command_refuses_a_list() -> None:
    with pytest.raises(TypeError, match="strings only"):
        command(["git", "status"])  # type: ignore[arg-type] # the mistake under test


def test_command_refuses_a_whole_command_line() -> None:
    with pytest.raises(TypeError, match=r"use command\('git', 'status'\)"):
        command("git status")


def test_command_refuses_an_empty_argv() -> None:
    with pytest.raises(ValueError, match="argv is empty"):
        command()


@pytest.mark.parametrize(
    ("line", "argv"),
    [
        ("pytest -q tests/unit", ("pytest", "-q", "tests/unit")),
        ("pytest -k 'a and b'", ("pytest", "-k", "a and b")),
        ("make test | tail", ("sh", "-c", "make test | tail")),
        ("cd sub && make", ("sh", "-c", "cd sub && make")),
        ("FAST=1 make test", ("sh", "-c", "FAST=1 make test")),
        ("ls tests/*.py", ("sh", "-c", "ls tests/*.py")),
        ("pytest --maxfail=1", ("pytest", "--maxfail=1")),
    ],
)
def test_a_line_needs_a_shell_only_for_shell_syntax(line: str, argv: tuple[str, ...]) -> None:
    assert parse_command_line(line) == argv


@pytest.mark.parametrize("line", ["", "   ", "echo 'open", "''"])
def test_an_invalid_command_line_is_refused(line: str) -> None:
    with pytest.raises(OptionInvalid):
        parse_command_line(line)


def test_a_command_refuses_a_string_as_argv() -> None:
    with pytest.raises(TypeError, match="argv must be a list of strings"):
        Command(argv="rm -rf .")
