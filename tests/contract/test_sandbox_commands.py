"""What every sandbox promises of commands."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from secrets import randbelow

import pytest

from contracts.sandbox import Command, ExecResult, OpenInput, Sandbox, Stream
from sandbox.scripted import ScriptedSandbox
from tests.support.contract import sh
from tests.support.waiting import LONG_S, growing_limits, wait_until

NAP = f"sleep {10**6 + randbelow(10**8)}"
"""A command line that no other process of this machine has, whoever runs these tests too."""


def naps(sandbox: Sandbox) -> int:
    """How many living processes have the command line `NAP`."""
    program = (
        "import glob, sys\n"
        "def line(path):\n"
        "    try: return open(path, 'rb').read()\n"
        "    except OSError: return b''\n"
        "mark = sys.stdin.buffer.read()\n"
        "print(sum(mark in line(path) for path in glob.glob('/proc/[0-9]*/cmdline')))\n"
    )
    command = Command(argv=("python3", "-c", program), stdin=NAP.replace(" ", "\0"))
    return int(sandbox.exec(command).stdout)


def test_a_command_gives_its_output_and_exit_code(sandbox: Sandbox) -> None:
    result = sh(sandbox, "echo out; echo err >&2; exit 3")
    assert (result.exit_code, result.stdout, result.stderr) == (3, b"out\n", b"err\n")
    assert (result.stdout_size, result.stderr_size, result.truncated) == (4, 4, False)
    assert result.launch_error is None
    assert not result.ok


def test_a_command_killed_by_a_signal_has_128_plus_its_number(sandbox: Sandbox) -> None:
    assert sh(sandbox, "kill -TERM $$").exit_code == 143


def test_arguments_are_passed_as_they_are(sandbox: Sandbox) -> None:
    odd = ("a b", "$HOME", "'; touch x", "*", "ünïcödé", "-n", "", "line\nbreak", "\udcff")
    program = "import os, sys; sys.stdout.buffer.write(b'|'.join(map(os.fsencode, sys.argv[1:])))"
    result = sandbox.exec(Command(argv=("python3", "-c", program, *odd)))
    assert result.stdout == b"|".join(map(os.fsencode, odd))


def test_a_megabyte_of_arguments_arrives(sandbox: Sandbox) -> None:
    argv = (
        "python3",
        "-c",
        "import sys; print(len(''.join(sys.argv[1:])))",
        *["x" * (1 << 16)] * 16,
    )
    assert sandbox.exec(Command(argv=argv)).stdout == b"1048576\n"


def test_a_command_starts_in_the_workspace(sandbox: Sandbox) -> None:
    assert sandbox.exec(Command(argv=("pwd",))).text == sandbox.work_dir


@pytest.mark.parametrize("absolute", [False, True])
def test_cwd_is_relative_to_the_workspace_or_absolute(sandbox: Sandbox, absolute: bool) -> None:
    sandbox.write_file("deep/er/file", b"")
    full = f"{sandbox.work_dir}/deep/er"
    cwd = full if absolute else "deep/er"
    assert sandbox.exec(Command(argv=("pwd",), cwd=cwd)).text == full


def test_a_missing_cwd_is_a_launch_error(sandbox: Sandbox) -> None:
    result = sandbox.exec(Command(argv=("echo", "hi"), cwd="no/such/place"))
    assert (result.exit_code, result.stdout) == (126, b"")
    assert "no/such/place" in (result.launch_error or "")


@pytest.mark.parametrize(
    "command",
    [
        Command(argv=("x" * (1 << 20),)),
        Command(argv=("true",), cwd="x" * (1 << 20)),
        Command(argv=("true",), user="x" * (1 << 20)),
    ],
    ids=["program", "cwd", "user"],
)
def test_a_very_long_name_gives_a_short_message(sandbox: Sandbox, command: Command) -> None:
    result = sandbox.exec(command)
    assert result.exit_code in (126, 127)
    assert 0 < len(result.launch_error or "") < 2000
    assert sandbox.exec(Command(argv=("true",))).ok


def test_a_missing_program_differs_from_exit_code_127(sandbox: Sandbox) -> None:
    missing = sandbox.exec(Command(argv=("no-such-program",)))
    exits = sh(sandbox, "exit 127")
    assert (missing.exit_code, exits.exit_code) == (127, 127)
    assert "no-such-program" in (missing.launch_error or "")
    assert exits.launch_error is None


def test_a_file_that_is_not_executable_is_a_launch_error(sandbox: Sandbox) -> None:
    sandbox.write_file("plain", b"#!/bin/sh\n")
    result = sandbox.exec(Command(argv=("./plain",)))
    assert result.exit_code == 126
    assert "denied" in (result.launch_error or "")


@pytest.mark.parametrize("user", ["nobody", "65534"])
def test_a_command_runs_as_the_user_it_names(sandbox: Sandbox, user: str) -> None:
    command = Command(argv=("sh", "-c", "id -u; id -g; echo $HOME; cd /; touch x"), user=user)
    result = sandbox.exec(command)
    if isinstance(sandbox, ScriptedSandbox) and os.geteuid() != 0:
        assert "only root may" in (result.launch_error or "")
        return
    uid, gid, home = result.stdout.decode().split()
    assert (uid, gid) == ("65534", "65534")
    assert home != sandbox.work_dir
    assert b"Permission denied" in result.stderr


def test_background_processes_of_another_user_are_killed(sandbox: Sandbox) -> None:
    line = Command(argv=("sh", "-c", f"{NAP} & echo done"), user="nobody")
    result = sandbox.exec(line)
    if result.launch_error is None:
        assert (result.stdout, result.killed_children) == (b"done\n", 1)
    assert naps(sandbox) == 0


@pytest.mark.parametrize("user", ["no-such-user", "4242424", "9" * 30, "", "-1", "a\0b", "\udcff"])
def test_an_unknown_user_is_a_launch_error(sandbox: Sandbox, user: str) -> None:
    result = sandbox.exec(Command(argv=("echo", "hi"), user=user))
    assert (result.exit_code, result.stdout) == (126, b"")
    assert f"no user {user!r}" in (result.launch_error or "")


@pytest.mark.parametrize("user", ["root", "0", "00"])
def test_no_command_runs_as_root(sandbox: Sandbox, user: str) -> None:
    result = sandbox.exec(Command(argv=("id", "-u"), user=user))
    assert (result.exit_code, result.stdout) == (126, b"")
    assert "root" in (result.launch_error or "")


def test_a_command_gets_only_its_own_environment(sandbox: Sandbox) -> None:
    os.environ["A_SECRET_OF_THE_HOST"] = "x"
    result = sandbox.exec(Command(argv=("env",), env={"GIVEN": "value"}))
    names = {line.split("=")[0] for line in result.text.splitlines()}
    assert names == {"PATH", "HOME", "LANG", "GIVEN"}
    del os.environ["A_SECRET_OF_THE_HOST"]


@pytest.mark.parametrize("size", [0, 1, 100_000, 50 << 20])
def test_stdin_arrives_whole(sandbox: Sandbox, size: int) -> None:
    result = sandbox.exec(Command(argv=("wc", "-c"), stdin=b"x" * size))
    assert int(result.stdout) == size


def test_a_command_may_open_its_own_streams(sandbox: Sandbox) -> None:
    line = "echo out > /dev/stdout; echo err | tee /dev/stderr >/dev/null; cat /dev/stdin"
    result = sandbox.exec(Command(argv=("sh", "-c", line), stdin="in"))
    assert (result.exit_code, result.stdout, result.stderr) == (0, b"out\nin", b"err\n")


def test_text_for_stdin_goes_as_utf_8(sandbox: Sandbox) -> None:
    assert (
        sandbox.exec(Command(argv=("cat",), stdin="ünï\udcff")).stdout == "ünï".encode() + b"\xff"
    )


def test_stdin_that_is_not_read_is_ignored(sandbox: Sandbox) -> None:
    assert sandbox.exec(Command(argv=("true",), stdin=b"x" * (5 << 20))).ok


def test_output_keeps_head_and_tail(sandbox: Sandbox) -> None:
    argv = ("python3", "-c", "print('a' * 5000 + 'b' * 5000, end='')")
    result = sandbox.exec(Command(argv=argv, output_limit=400))
    assert result.stdout == b"a" * 100 + b"b" * 300
    assert (result.stdout_size, result.truncated) == (10_000, True)


def test_output_is_byte_exact(sandbox: Sandbox) -> None:
    every = bytes(range(256)) * 300
    result = sandbox.exec(Command(argv=("cat",), stdin=every))
    assert (result.stdout, result.truncated) == (every, False)
    assert "�" in result.text


def test_on_output_is_called_during_the_command_in_the_calling_thread(sandbox: Sandbox) -> None:
    seen: list[tuple[str, bytes, bool]] = []
    caller = threading.get_ident()

    def note(stream: str, data: bytes) -> None:
        seen.append((stream, data, threading.get_ident() == caller))
        sandbox.write_file("seen", b"")

    line = "echo one; until test -e seen; do sleep 0.1; done; echo two >&2"
    result = sh(sandbox, f"rm -f seen; {line}", on_output=note, timeout_s=LONG_S)
    assert not result.timed_out
    assert seen == [("stdout", b"one\n", True), ("stderr", b"two\n", True)]


def test_an_error_in_on_output_ends_the_command(sandbox: Sandbox) -> None:
    def refuse(_stream: str, _data: bytes) -> None:
        raise KeyError("enough")

    with pytest.raises(KeyError):
        sandbox.exec(Command(argv=("sh", "-c", f"echo; exec {NAP}")), refuse)
    wait_until(lambda: naps(sandbox) == 0)


def test_a_timeout_kills_the_tree_and_keeps_the_output(sandbox: Sandbox) -> None:
    for limit_s in growing_limits(0.5):
        line = f"echo early; trap '' TERM; {NAP} & {NAP}"
        result = sh(sandbox, line, timeout_s=limit_s)
        assert (result.timed_out, result.ok) == (True, False)
        if result.stdout:
            break
    assert result.stdout == b"early\n"
    assert naps(sandbox) == 0


def test_children_left_behind_are_killed_and_counted(sandbox: Sandbox) -> None:
    result = sh(sandbox, f"{NAP} & {NAP} & echo done")
    assert (result.exit_code, result.stdout, result.killed_children) == (0, b"done\n", 2)
    assert naps(sandbox) == 0


def test_twenty_commands_at_once_do_not_disturb_each_other(sandbox: Sandbox) -> None:
    def run(number: int) -> ExecResult:
        line = f"echo {number}; sleep 0.1; sleep 60 & exit {number}"
        return sh(sandbox, line)

    with ThreadPoolExecutor(20) as threads:
        results = list(threads.map(run, range(20)))
    told = [(result.exit_code, int(result.stdout), result.killed_children) for result in results]
    assert told == [(number, number, 1) for number in range(20)]


def test_a_scripted_answer_replaces_the_command() -> None:
    answer = ExecResult(exit_code=7, stdout=b"scripted")
    seen: list[tuple[str, bytes]] = []
    with ScriptedSandbox({("deploy", "now"): answer}) as scripted:
        result = scripted.exec(
            Command(argv=("deploy", "now")), lambda stream, data: seen.append((stream, data))
        )
    assert (result, seen) == (answer, [("stdout", b"scripted")])


LOOP = "def test_loops():\n    while True: pass\n\n\ntest_loops()\n"
NAPPING = "import time\n\n\ndef test_waits():\n    time.sleep(600)\n\n\ntest_waits()\n"


def python(program: str, **limits: float) -> Command:
    argv = ("python3", "-c", f"print('began', flush=True)\n{program}")
    env = {"PYTHONFAULTHANDLER": "1"}
    return Command(argv=argv, env=env, stacks=True, **limits)  # type: ignore[arg-type]  # numbers only


def test_a_busy_command_that_writes_nothing_ends_early_with_its_stack(sandbox: Sandbox) -> None:
    result = sandbox.exec(python(LOOP, timeout_s=LONG_S, stuck_after_s=2))
    assert (result.stuck, result.timed_out, result.stdout) == (True, True, b"began\n")
    assert b"in test_loops" in result.stderr


def test_an_idle_command_that_writes_nothing_may_use_all_its_time(sandbox: Sandbox) -> None:
    result = sandbox.exec(python(NAPPING, timeout_s=4, stuck_after_s=2))
    assert (result.stuck, result.timed_out) == (False, True)


def test_a_busy_command_that_writes_may_use_all_its_time(sandbox: Sandbox) -> None:
    program = (
        "import time\nend = time.time() + 4\nwhile time.time() < end: print('.', flush=True)\n"
    )
    result = sandbox.exec(python(program, timeout_s=LONG_S, stuck_after_s=2))
    assert (result.stuck, result.ok) == (False, True)


@pytest.mark.parametrize("line", ["exec python3 hang.py", "python3 hang.py; true"])
def test_a_command_that_times_out_shows_the_stacks_of_its_processes(
    sandbox: Sandbox, line: str
) -> None:
    sandbox.write_file("hang.py", f"print('began', flush=True)\n{NAPPING}".encode())
    for limit_s in growing_limits(1):
        command = Command(
            argv=("sh", "-c", line),
            env={"PYTHONFAULTHANDLER": "1"},
            timeout_s=limit_s,
            stacks=True,
        )
        result = sandbox.exec(command)
        if b"began" in result.stdout:
            break
    assert (result.timed_out, result.exit_code) == (True, 137)
    assert b"in test_waits" in result.stderr


@pytest.mark.parametrize("size", [1, 3 << 20])
def test_a_dialogue_with_a_command_lasts_until_its_input_is_closed(
    sandbox: Sandbox, size: int
) -> None:
    program = "import sys\nfor line in sys.stdin: print(len(line) - 1, flush=True)\nprint('end')"
    talk = OpenInput(b"x" * size + b"\n")
    said = b""

    def answer(_: Stream, data: bytes) -> None:
        nonlocal said
        said += data
        if said.count(b"\n") == 3:
            talk.close()
        elif data.endswith(b"\n"):
            talk.write(b"x" * (size * (1 + said.count(b"\n"))) + b"\n")

    result = sandbox.exec(Command(argv=("python3", "-c", program), stdin=talk), answer)
    assert result.text.split() == [str(size), str(2 * size), str(3 * size), "end"]


def test_a_command_may_end_before_its_input_does(sandbox: Sandbox) -> None:
    talk = OpenInput()

    def answer(_: Stream, data: bytes) -> None:
        talk.write(b"x" * (1 << 21))

    assert sandbox.exec(Command(argv=("echo", "done"), stdin=talk), answer).text == "done"
