"""What a run of a project's tests says, and what it does not."""

from shlex import quote

import pytest

from nodes.projects.work import exec_tests, run_tests
from sandbox.scripted import ScriptedSandbox
from tests.nodes.workspace import context, do, write

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
def test_tests_that_could_not_run_are_told_apart(
    sandbox: ScriptedSandbox, files: dict[str, str], options: dict[str, str]
) -> None:
    error = do(run_tests, sandbox, files, **options).error or ""
    assert error.startswith("the tests could not be run")


def test_a_conftest_that_cannot_be_imported_is_a_failure_to_mend(sandbox: ScriptedSandbox) -> None:
    write(sandbox, {"conftest.py": "import no_such\n", "test_a.py": PASSING})
    assert exec_tests(context(sandbox), sandbox).verdict


@pytest.mark.parametrize("program", ["(exit 4)", "echo ERROR: prices differ; exit 1"])
def test_what_only_looks_like_a_refusal_of_pytest_is_a_verdict(
    sandbox: ScriptedSandbox, program: str
) -> None:
    assert exec_tests(context(sandbox, options={"test": program}), sandbox).verdict


def test_an_older_pytest_without_a_plugin_gives_no_verdict(sandbox: ScriptedSandbox) -> None:
    said = "ImportError: Error importing plugin \"xyz\": No module named 'xyz'"
    ran = exec_tests(context(sandbox, options={"test": f"echo {quote(said)}; exit 1"}), sandbox)
    assert not ran.verdict


def test_a_src_layout_passes_its_tests(sandbox: ScriptedSandbox) -> None:
    files = {
        "src/shop/__init__.py": "PRICE = 3\n",
        "tests/test_shop.py": "from shop import PRICE\ndef test_it(): assert PRICE == 3\n",
    }
    assert do(run_tests, sandbox, files).status == "success"
