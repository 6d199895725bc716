"""A process that skips Python's clean-up ends like any other, seen from outside."""

import sys
from pathlib import Path
from subprocess import PIPE, CompletedProcess, run
from typing import IO

import pytest


def left(last: str, stdout: int | IO[str] = PIPE) -> "CompletedProcess[str]":
    """What is seen of a Python whose last lines are these, within the block that is tested."""
    lines = ("import atexit, sys, threading, time", "from flows.host.fork_server import fast_exit")
    program = "\n".join((*lines, "with fast_exit():", f"    {last}"))
    argv = (sys.executable, "-c", program)
    return run(argv, stdout=stdout, stderr=PIPE, env={}, text=True, check=False)


@pytest.mark.parametrize("way", ["pass", "sys.exit()", "sys.exit(0)"])
def test_a_normal_end_exits_with_zero(way: str) -> None:
    assert left(way).returncode == 0


def test_the_exit_code_is_kept() -> None:
    assert left("sys.exit(3)").returncode == 3


def test_the_message_of_sys_exit_is_printed() -> None:
    ended = left("sys.exit('there is no engine')")
    assert ended.returncode == 1
    assert ended.stderr == "there is no engine\n"


def test_an_error_keeps_its_traceback() -> None:
    ended = left("1 / 0")
    assert ended.returncode == 1
    assert ended.stderr.endswith("ZeroDivisionError: division by zero\n")


def test_buffered_output_is_printed() -> None:
    assert left("print('x' * 5_000, end='')").stdout == "x" * 5_000


def test_threads_and_exit_functions_are_waited_for() -> None:
    thread = "threading.Thread(target=lambda: (time.sleep(0.3), print('thread'))).start()"
    assert left(f"atexit.register(print, 'at exit'); {thread}").stdout == "thread\nat exit\n"


def test_output_that_cannot_be_written_exits_as_python_does() -> None:
    with Path("/dev/full").open("w") as full:
        ended = left("print('lost')", stdout=full)
    assert ended.returncode == 120
    assert "No space left on device" in ended.stderr


def test_modules_are_not_cleared_at_exit() -> None:
    kept = "kept = type('Kept', (), {'__del__': lambda self: print('taken apart')})()"
    assert left(kept).stdout == ""
