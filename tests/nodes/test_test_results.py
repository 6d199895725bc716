"""Results by test, as test runners write them."""

import shutil

import pytest

from nodes.projects.cases import MAX_MESSAGE, CaseStatus
from nodes.projects.junit import junit_cases
from nodes.projects.testing import exec_tests
from nodes.projects.text_results import text_cases, under_way
from sandbox.scripted import ScriptedSandbox
from tests.support.workspace import context, put_repo, write


def statuses(text: str) -> dict[str, CaseStatus]:
    return {name: case.status for name, case in text_cases(text).items()}


UNITTEST = """\
test_add (test_a.TestA.test_add)
Sums are right. ... FAIL
test_sub (test_a.TestA.test_sub) ... ok
test_mul (test_a.TestA.test_mul) ... skipped 'later'

======================================================================
FAIL: test_add (test_a.TestA.test_add)
Sums are right.
----------------------------------------------------------------------
Traceback (most recent call last):
AssertionError: -1 != 3

----------------------------------------------------------------------
Ran 3 tests in 0.001s
"""
GO = """\
=== RUN   TestAdd
    add_test.go:8: got -1, want 3
--- FAIL: TestAdd (0.00s)
=== RUN   TestSub
--- PASS: TestSub (0.00s)
FAIL
FAIL\texample.com/shop\t0.002s
=== RUN   TestBuy
--- SKIP: TestBuy (0.00s)
ok  \texample.com/shop/buy\t0.001s
FAIL\texample.com/shop/sell [build failed]
"""
CARGO = """\
running 3 tests
test tests::adds ... FAILED
test tests::subtracts ... ok
test tests::buys ... ignored

failures:

---- tests::adds stdout ----
thread 'tests::adds' panicked at src/lib.rs:9:9: assertion failed

failures:
    tests::adds
"""
TAP = """\
TAP version 13
not ok 1 - adds
  ---
  message: "expected 3"
  ...
ok 2 - subtracts # time=0.2ms
ok 3 - buys # SKIP no shop
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            UNITTEST,
            {
                "test_add (test_a.TestA.test_add)": "failed",
                "test_sub (test_a.TestA.test_sub)": "passed",
                "test_mul (test_a.TestA.test_mul)": "skipped",
            },
        ),
        (
            GO,
            {
                "example.com/shop.TestAdd": "failed",
                "example.com/shop.TestSub": "passed",
                "example.com/shop/buy.TestBuy": "skipped",
                "example.com/shop/buy": "passed",
                "example.com/shop/sell": "failed",
            },
        ),
        (
            CARGO,
            {
                "tests::adds": "failed",
                "tests::subtracts": "passed",
                "tests::buys": "skipped",
            },
        ),
        (TAP, {"adds": "failed", "subtracts": "passed", "buys": "skipped"}),
        (
            "not ok test/a.js ............ 1/2\n    Command: node a.js\n    TAP version 13\n"
            "    not ok 1 adds\n      ---\n      ...\n\n    1..2\nok test/b.js ... 2/2\n",
            {"test/a.js": "failed", "test/b.js": "passed"},
        ),
        (
            '{"Action":"pass","Package":"a/b","Test":"TestX"}\n'
            '{"Action":"output","Package":"a/b","Test":"TestY","Output":"no"}\n'
            '{"Action":"fail","Package":"a/b","Test":"TestY"}\n',
            {"a/b.TestX": "passed", "a/b.TestY": "failed"},
        ),
        (
            "1/2 Test #1: adds ...   Passed    0.01 sec\n2/2 Test #2: buys ...***Failed 0.1 s\n",
            {"adds": "passed", "buys": "failed"},
        ),
        (
            "[       OK ] Shop.Adds (0 ms)\n[  FAILED  ] Shop.Buys (1 ms)\n",
            {"Shop.Adds": "passed", "Shop.Buys": "failed"},
        ),
        (
            "PASS: adds.sh\nFAIL: buys.sh\nXFAIL: old.sh\n",
            {"adds.sh": "passed", "buys.sh": "failed", "old.sh": "passed"},
        ),
        (
            "  shop\n    ✔ adds (3ms)\n    1) buys\n",
            {"adds": "passed", "buys": "failed"},
        ),
        ("✔ adds (0.5ms)\n✖ buys (1.2ms)\n", {"adds": "passed", "buys": "failed"}),
        (
            "PASS test/a.test.js\nFAIL test/b.test.js\n  ● shop \u203a buys\n",
            {"test/a.test.js": "passed", "test/b.test.js": "failed", "shop \u203a buys": "failed"},
        ),
        ("Shop#test_a = 0.00 s = .\nShop#test_b = 0.00 s = F\n",
         {"Shop#test_a": "passed", "Shop#test_b": "failed"}),
        ("t/a.t .. ok\nt/b.t .. Failed 1/3 subtests\n", {"t/a.t": "passed", "t/b.t": "failed"}),
        ("hello\n", {}),
    ],
)  # fmt: skip
def test_the_text_of_a_runner_tells_results_by_test(
    text: str, expected: dict[str, CaseStatus]
) -> None:
    assert statuses(text) == expected


@pytest.mark.parametrize(
    ("text", "name", "said"),
    [
        (UNITTEST, "test_add (test_a.TestA.test_add)", "AssertionError: -1 != 3"),
        (GO, "example.com/shop.TestAdd", "got -1, want 3"),
        (CARGO, "tests::adds", "assertion failed"),
        (TAP, "adds", 'message: "expected 3"'),
    ],
)
def test_the_text_of_a_runner_tells_why_a_test_failed(text: str, name: str, said: str) -> None:
    assert said in text_cases(text)[name].message


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("=== RUN   TestA\n--- PASS: TestA (0.00s)\n=== RUN   TestB\n", "TestB"),
        ("test_a (m.T.test_a) ... ok\ntest_b (m.T.test_b) ... ", "test_b (m.T.test_b)"),
        ("test a ... ok\ntest b has been running for over 60 seconds\n", "b"),
        ('Current thread 0x1:\n  File "/a.py", line 3 in test_b\n', "test_b"),
        ("hello\n", None),
    ],
)  # fmt: skip
def test_the_test_under_way_is_named_where_the_output_tells(text: str, name: str | None) -> None:
    assert under_way(text) == name


JUNIT = """<?xml version="1.0"?>
<testsuites><testsuite>
<testcase classname="tests.test_a.TestA" name="test_add" file="tests/test_a.py">
  <failure message="assert -1 == 3">E assert -1 == 3</failure></testcase>
<testcase classname="shop.ShopTest" name="buys"><error message="boom"/></testcase>
<testcase classname="shop.ShopTest" name="sells"><skipped/></testcase>
<testcase classname="shop.ShopTest" name="adds"><system-out>FAILED</system-out></testcase>
</testsuite></testsuites>"""


def test_junit_files_tell_results_by_test() -> None:
    assert [(name, case.status) for name, case in junit_cases(JUNIT.encode())] == [
        ("tests/test_a.py::TestA::test_add", "failed"),
        ("shop.ShopTest.buys", "failed"),
        ("shop.ShopTest.sells", "skipped"),
        ("shop.ShopTest.adds", "passed"),
    ]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_junit_file_with_entities_is_refused(encoding: str) -> None:
    bomb = '<!DOCTYPE a [<!ENTITY b "bbbb">]><a><testcase name="&b;"/></a>'
    assert junit_cases(bomb.encode(encoding)) == []


@pytest.mark.parametrize(
    "data", [b"", b"<a", b"\0\xff", b'<?xml version="1.0" encoding="no"?><a/>']
)
def test_a_broken_junit_file_tells_nothing(data: bytes) -> None:
    assert junit_cases(data) == []


def test_pytest_tells_results_by_test(sandbox: ScriptedSandbox) -> None:
    put_repo(sandbox, {"tests/test_a.py": "def test_a(): assert 0, 'why'\ndef test_b(): pass\n"})
    cases = exec_tests(context(sandbox), sandbox).cases
    assert {name: case.status for name, case in cases.items()} == {
        "tests/test_a.py::test_a": "failed",
        "tests/test_a.py::test_b": "passed",
    }
    assert "AssertionError: why" in cases["tests/test_a.py::test_a"].message


def test_pytest_behind_make_tells_results_by_test(sandbox: ScriptedSandbox) -> None:
    put_repo(
        sandbox, {"Makefile": "test:\n\tpython3 -m pytest -q\n", "test_a.py": "def test_a(): 1\n"}
    )
    cases = exec_tests(context(sandbox, options={"test": "make test"}), sandbox).cases
    assert list(cases) == ["test_a.py::test_a"]


def test_a_pytest_that_refuses_our_options_still_runs(sandbox: ScriptedSandbox) -> None:
    put_repo(
        sandbox,
        {"pytest.ini": "[pytest]\naddopts = -p no:junitxml\n", "test_a.py": "def test_a(): pass\n"},
    )
    assert exec_tests(context(sandbox), sandbox).result.status == "success"


def test_result_files_of_an_earlier_test_run_do_not_count(sandbox: ScriptedSandbox) -> None:
    old = JUNIT.replace("test_add", "old")
    put_repo(sandbox, {"target/surefire-reports/TEST-a.xml": old})
    assert exec_tests(context(sandbox, options={"test": "true"}), sandbox).cases == {}


def test_result_files_that_the_tests_write_are_read(sandbox: ScriptedSandbox) -> None:
    put_repo(sandbox, {"junit.xml": JUNIT})
    folder = "target/surefire-reports"
    line = f"sleep 0.02 && mkdir -p {folder} && cp junit.xml {folder}/TEST-a.xml"
    cases = exec_tests(context(sandbox, options={"test": line}), sandbox).cases
    assert len(cases) == 4


def test_the_results_of_a_huge_failure_are_shortened(sandbox: ScriptedSandbox) -> None:
    put_repo(sandbox, {"test_a.py": "def test_a(): assert 0, 'x' * 100_000\n"})
    cases = exec_tests(context(sandbox), sandbox).cases
    assert len(cases["test_a.py::test_a"].message) < MAX_MESSAGE + 100


@pytest.mark.skipif(
    shutil.which("node") is None,
    reason="compares with what the host's own Node prints; the tests of containers bring theirs",
)
def test_the_runner_of_node_tells_results_by_test(sandbox: ScriptedSandbox) -> None:
    node = shutil.which("node") or ""
    test = "const t = require('node:test'); t('adds', () => {}); t('buys', () => { throw 1 })"
    write(sandbox, {"a.test.js": test})
    cases = exec_tests(context(sandbox, options={"test": f"{node} --test"}), sandbox).cases
    assert (cases["adds"].status, cases["buys"].status) == ("passed", "failed")


ANT = """\
test:
    [junit] Running org.shop.TestCart
    [junit] expected 3, got 4
    [junit] Tests run: 9, Failures: 1, Errors: 0, Skipped: 0, Time elapsed: 0.3 sec
    [junit] Test org.shop.TestCart FAILED
    [junit] Running org.shop.TestPrice
    [junit] Tests run: 2, Failures: 0, Errors: 0, Skipped: 0, Time elapsed: 0.1 sec
     [java] 1) testSum(org.shop.TestSum)junit.framework.AssertionFailedError
     [java] Tests run: 7,  Failures: 1,  Errors: 0

BUILD SUCCESSFUL
"""


def test_failures_that_ant_reports_count_although_it_ends_with_0(sandbox: ScriptedSandbox) -> None:
    put_repo(sandbox, {"out.txt": ANT})
    tests = exec_tests(context(sandbox, options={"test": "cat out.txt"}), sandbox)
    assert tests.result.error == ("'cat out.txt' ended with exit code 0, but 2 of its tests failed")
    assert {name: case.status for name, case in tests.cases.items()} == {
        "org.shop.TestCart": "failed",
        "org.shop.TestPrice": "passed",
        "testSum(org.shop.TestSum)": "failed",
    }
    assert "got 4" in tests.cases["org.shop.TestCart"].message


def test_a_tap_plan_of_no_tests_is_no_passing_test(sandbox: ScriptedSandbox) -> None:
    put_repo(sandbox, {"out.txt": "TAP version 13\n\n1..0\n# tests 0\n# pass  0\n\n# ok\n"})
    tests = exec_tests(context(sandbox, options={"test": "cat out.txt"}), sandbox)
    assert not tests.verdict
    assert "no tests were found" in (tests.result.error or "")
