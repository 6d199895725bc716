"""What a run of a project's tests says, and what it does not."""

from shlex import quote

import pytest

from contracts.errors import OptionInvalid
from contracts.sandbox import Command, ExecResult, OnOutput
from nodes.projects.options import check_option
from nodes.projects.testing import exec_tests
from nodes.projects.work import run_tests
from sandbox.scripted import ScriptedSandbox
from tests.support.waiting import growing_limits
from tests.support.workspace import context, do, put_repo, write

LOOK_FOR_CC = (
    "sh", "-c", 'for tool; do command -v "$tool" >/dev/null || echo "$tool"; done', "sh", "cc",
)  # fmt: skip
LOOK_FOR_LIMIT = (
    "cat", "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes",
)  # fmt: skip
PASSING = "def test_it(): pass\n"
FAILING = "def test_it(): assert 0, 'the-reason'\n"


def test_passing_tests_pass(sandbox: ScriptedSandbox) -> None:
    assert do(run_tests, sandbox, {"test_a.py": PASSING}).status == "success"


def test_an_edit_right_after_a_test_run_is_seen(sandbox: ScriptedSandbox) -> None:
    test = "from app import A\ndef test_it(): assert A == 2\n"
    assert do(run_tests, sandbox, {"app.py": "A = 1\n", "test_a.py": test}).status == "failure"
    assert do(run_tests, sandbox, {"app.py": "A = 2\n"}).status == "success"


def test_failing_tests_fail_with_what_they_printed(sandbox: ScriptedSandbox) -> None:
    assert "the-reason" in do(run_tests, sandbox, {"test_a.py": FAILING}).output


@pytest.mark.parametrize(
    ("files", "options"),
    [
        ({"pytest.ini": "[pytest]\n"}, {}),
        ({"test_a.py": "import unittest\n"}, {}),
        ({"pytest.ini": "[pytest]\naddopts = --no-such-option\n", "test_a.py": PASSING}, {}),
        ({"pytest.ini": "[pytest]\nrequired_plugins = no-such\n", "test_a.py": PASSING}, {}),
        ({"pytest.ini": "[pytest]\nminversion = 99\n", "test_a.py": PASSING}, {}),
        ({"pytest.ini": "[pytest]\naddopts = -p no_such\n", "test_a.py": PASSING}, {}),
        ({}, {"test": "no-such-program"}),
        ({}, {"test": "no-such-program | cat; exit 127"}),
    ],
)
def test_tests_that_could_not_run_have_an_error_of_their_own(
    sandbox: ScriptedSandbox, files: dict[str, str], options: dict[str, str]
) -> None:
    error = do(run_tests, sandbox, files, **options).error or ""
    assert error.startswith("the tests could not be run")


def test_a_broken_conftest_is_a_test_failure(sandbox: ScriptedSandbox) -> None:
    write(sandbox, {"conftest.py": "import no_such\n", "test_a.py": PASSING})
    assert exec_tests(context(sandbox), sandbox).verdict


@pytest.mark.parametrize("program", ["(exit 4)", "echo ERROR: prices differ; exit 1"])
def test_output_that_resembles_a_pytest_error_is_a_verdict(
    sandbox: ScriptedSandbox, program: str
) -> None:
    assert exec_tests(context(sandbox, options={"test": program}), sandbox).verdict


def test_an_older_pytest_without_a_plugin_gives_no_verdict(sandbox: ScriptedSandbox) -> None:
    said = "ImportError: Error importing plugin \"xyz\": No module named 'xyz'"
    ran = exec_tests(context(sandbox, options={"test": f"echo {quote(said)}; exit 1"}), sandbox)
    assert not ran.verdict


@pytest.mark.parametrize(
    ("exit_code", "said"),
    [
        (2, "make: no-such: No such file or directory\nmake: *** [Makefile:4: all] Error 127"),
        (2, "/bin/sh: 1: no-such: not found\nmake: *** [Makefile:2: test] Error 127"),
        (
            2,
            "make[1]: no-such: No such file or directory\n"
            "make[1]: *** [Makefile:2: all] Error 127\nmake: *** [Makefile:2: test] Error 2",
        ),
        (127, "bash: line 1: no-such: command not found"),
        (127, "./run-tests.sh: line 3: no-such: command not found"),
        (127, "/usr/bin/env: \u2018no-such\u2019: No such file or directory"),
        (127, "env: 'no-such': No such file or directory"),
        (1, "sh: 1: no-such: not found\nnpm ERR! code ELIFECYCLE\nnpm ERR! errno 127"),
        (1, "npm error code ENOENT\nnpm error syscall spawn no-such"),
        (
            1,
            "        error: command 'no-such' failed: No such file or directory\n"
            "        [end of output]\nerror: subprocess-exited-with-error",
        ),
        (
            1,
            "  Could not find the compiler specified in the environment variable CC:\n\n"
            "  no-such.\n\n-- Configuring incomplete, errors occurred!",
        ),
        (101, "error: linker `no-such` not found\n\nerror: could not compile `it` (bin)"),
        (
            1,
            "# runtime/cgo\n"
            'cgo: C compiler "no-such" not found: exec: "no-such": '
            "executable file not found in $PATH",
        ),
        (
            2,
            "py3: Exception running subprocess [Errno 2] No such file or directory: 'no-such'\n"
            "  py3: FAIL code 2 (3.23=setup[3.23]+cmd[0.00] seconds)",
        ),
    ],
)
def test_a_program_that_another_program_misses_is_named(
    sandbox: ScriptedSandbox, exit_code: int, said: str
) -> None:
    line = f"printf '%s\\n' {quote(said)}; exit {exit_code}"
    ran = exec_tests(context(sandbox, options={"test": line}), sandbox)
    assert not ran.verdict
    assert "could not be run: not in the sandbox: no-such. " in str(ran.result.error)


def test_a_makefile_without_its_compiler_names_the_compiler(sandbox: ScriptedSandbox) -> None:
    ran = do(run_tests, sandbox, {"Makefile": "test:\n\tno-such-cc -o a a.c\n"})
    assert "not in the sandbox: no-such-cc. " in str(ran.error)


def test_a_compiler_that_cmake_does_not_find_is_named() -> None:
    said = b"No CMAKE_C_COMPILER could be found.\n-- Configuring incomplete, errors occurred!\n"
    answers: dict[tuple[str, ...], ExecResult] = {
        ("cmake", "."): ExecResult(exit_code=1, stderr=said),
        LOOK_FOR_CC: ExecResult(exit_code=0, stdout=b"cc\n"),
    }
    with ScriptedSandbox(answers) as sandbox:
        ran = exec_tests(context(sandbox, options={"test": "cmake ."}), sandbox)
    assert "not in the sandbox: cc (gcc). " in str(ran.result.error)


@pytest.mark.parametrize(
    ("exit_code", "said"),
    [
        (1, "/bin/sh: 1: no-such: not found"),
        (1, "FileNotFoundError: No such file or directory: 'no-such'"),
        (2, "make: git: No such file or directory\nmake: *** [Makefile:4: all] Error 127"),
        (2, "make: ./no-such: No such file or directory\nmake: *** [Makefile:4: all] Error 127"),
        (2, "sh: 1: no-such: not found\nmake: [Makefile:4: all] Error 127 (ignored)"),
        (1, "error: command 'no-such' failed: No such file or directory\n1 failed"),
    ],
)
def test_output_that_only_mentions_a_missing_program_is_a_verdict(
    sandbox: ScriptedSandbox, exit_code: int, said: str
) -> None:
    line = f"printf '%s\\n' {quote(said)}; exit {exit_code}"
    assert exec_tests(context(sandbox, options={"test": line}), sandbox).verdict


def test_a_program_that_a_node_project_may_install_is_named_with_its_install(
    sandbox: ScriptedSandbox,
) -> None:
    package = '{"scripts": {"test": "jest"}, "devDependencies": {"jest": "1"}}'
    line = "echo 'sh: 1: no-such-jest: not found' && exit 127"
    error = str(do(run_tests, sandbox, {"package.json": package}, test=line).error)
    assert "neither in node_modules/.bin nor in the sandbox: no-such-jest. " in error
    assert "npm install" in error


def test_tests_that_hang_fail_at_their_time_limit_with_what_they_printed(
    sandbox: ScriptedSandbox,
) -> None:
    options = {"test": "echo so far && exec sleep 600", "test_timeout": "0.5"}
    ran = exec_tests(context(sandbox, options=options), sandbox)
    assert (ran.verdict, ran.result.status, ran.result.output) == (True, "failure", "so far")
    assert str(ran.result.error).startswith("the tests did not end within 0.5 s: ")


def test_tests_have_ten_minutes_by_default() -> None:
    result = ExecResult(exit_code=137, timed_out=True, duration_ms=600_000)
    with ScriptedSandbox({("make", "test"): result}) as sandbox:
        ran = exec_tests(context(sandbox, options={"test": "make test"}), sandbox)
    assert str(ran.result.error).startswith("the tests did not end within 600 s")


@pytest.mark.parametrize("value", ["", "0", "-1", "nan", "inf", "1e9", "soon", "5m"])
def test_an_invalid_time_limit_is_refused(value: str) -> None:
    with pytest.raises(OptionInvalid, match="number of seconds"):
        check_option("test_timeout", value)


def test_tests_that_crash_fail_and_name_the_signal(sandbox: ScriptedSandbox) -> None:
    ran = exec_tests(context(sandbox, options={"test": "echo so far; kill -SEGV $$"}), sandbox)
    assert (ran.verdict, ran.result.output) == (True, "so far")
    assert str(ran.result.error).endswith("failed with exit code 139: killed by SIGSEGV")


def test_tests_that_run_out_of_memory_fail_and_name_the_limit() -> None:
    answers: dict[tuple[str, ...], ExecResult] = {
        ("make", "test"): ExecResult(exit_code=2, stdout=b"so far", out_of_memory=True),
        LOOK_FOR_LIMIT: ExecResult(exit_code=1, stdout=b"4294967296\n", stderr=b"no such file"),
    }
    with ScriptedSandbox(answers) as sandbox:
        ran = exec_tests(context(sandbox, options={"test": "make test"}), sandbox)
    assert (ran.verdict, ran.result.output) == (True, "so far")
    assert str(ran.result.error).startswith("the tests ran out of memory (limit 4 GiB): ")


def test_a_src_layout_passes_its_tests(sandbox: ScriptedSandbox) -> None:
    files = {
        "src/shop/__init__.py": "PRICE = 3\n",
        "tests/test_shop.py": "from shop import PRICE\ndef test_it(): assert PRICE == 3\n",
    }
    assert do(run_tests, sandbox, files).status == "success"


LOOPS = "def test_price():\n    while True: pass\n"


def test_tests_that_hang_fail_with_the_test_under_way_and_its_stack(
    sandbox: ScriptedSandbox,
) -> None:
    put_repo(sandbox, {"test_a.py": LOOPS})
    for limit_s in growing_limits(2):
        ran = exec_tests(context(sandbox, options={"test_timeout": str(limit_s)}), sandbox)
        if "in the test 'test_price'" in str(ran.result.error):
            break
    assert (ran.verdict, ran.ended) == (True, False)
    assert 'test_a.py", line 2 in test_price' in ran.result.output


def test_a_busy_and_silent_test_run_fails_early_and_says_so() -> None:
    result = ExecResult(exit_code=137, timed_out=True, stuck=True, duration_ms=121_000)
    with ScriptedSandbox({("make", "test"): result}) as sandbox:
        ran = exec_tests(context(sandbox, options={"test": "make test"}), sandbox)
    assert ran.verdict
    assert str(ran.result.error).startswith("the tests printed nothing for 120 s and kept a ")


@pytest.mark.parametrize(
    ("line", "after_s"),
    [("python3 -m pytest -q", 120), ("go test ./...", 120), ("make test", None)],
)
def test_only_runners_that_print_every_test_are_ended_early(
    line: str, after_s: float | None
) -> None:
    with Recording() as sandbox:
        exec_tests(context(sandbox, options={"test": line}), sandbox)
        (command,) = (one for one in sandbox.commands if one.stacks)
    assert command.stuck_after_s == after_s


def test_a_crash_names_the_test_under_way(sandbox: ScriptedSandbox) -> None:
    crash = "import os, signal\ndef test_price():\n    os.kill(os.getpid(), signal.SIGSEGV)\n"
    put_repo(sandbox, {"test_a.py": crash})
    ran = exec_tests(context(sandbox), sandbox)
    assert (ran.verdict, ran.ended) == (True, False)
    assert str(ran.result.error).endswith("killed by SIGSEGV, in the test 'test_price'")


class Recording(ScriptedSandbox):
    """Keeps the commands."""

    def __init__(self) -> None:
        super().__init__()
        self.commands: list[Command] = []

    def exec(self, command: Command, on_output: OnOutput | None = None) -> ExecResult:
        self.commands.append(command)
        return super().exec(command, on_output)
