"""What fix-tests makes of results by test."""

from pathlib import Path

from blueprints.dsl import deterministic
from blueprints.engine import NodeRunner
from blueprints.library.fix_tests import expect_failing_tests
from contracts.run import RunReport
from contracts.verdicts import FailedTest, Verdicts
from sandbox.scripted import ScriptedSandbox
from tests.support.built_in import Agent, change, run, statuses
from tests.support.git_repos import commit_files, run_git
from tests.support.workspace import context, put_repo

PRICE = "import os, subprocess\nfrom shop import price\n"
TESTS = f"{PRICE}def test_price(): assert price() == 3\ndef test_other(): pass\n"
NEEDS_TOOL = "def test_page(): subprocess.run(['no-such-less'])\n"
NEEDS_NETWORK = "def test_fetch(): raise OSError('Temporary failure in name resolution')\n"
NEEDS_HOST = "def test_host(): assert [object(), 'the host'] == 0\n"
GOOD = "def price(): return 3\n"
BAD = "def price(): return 4\n"
FIX = change("shop.py", GOOD)


def project(tests: str, shop: str = BAD) -> dict[str, str]:
    return {"shop.py": shop, "test_shop.py": tests}


def released(sandbox: ScriptedSandbox, tests: str) -> Path:
    """A repository whose tag v1 has the tests and no bug, and whose HEAD has the bug."""
    repo = put_repo(sandbox, project(tests, GOOD))
    run_git(repo, "tag", "v1")
    commit_files(repo, {"shop.py": BAD.encode()})
    return repo


def verdicts(report: RunReport, node: str) -> Verdicts:
    found = next(one.tests for one in report.nodes if one.name == node)
    assert found is not None
    return found


def names(tests: tuple[FailedTest, ...]) -> list[str]:
    return [test.name for test in tests]


def test_the_agent_gets_the_failing_tests_with_their_messages(sandbox: ScriptedSandbox) -> None:
    put_repo(sandbox, project(TESTS))
    agent = Agent(FIX)
    assert run("fix-tests", sandbox, agent).status == "success"
    assert "1 passed, 1 failed" in agent.prompts["fix"]
    assert "FAILED test_shop.py::test_price" in agent.prompts["fix"]


def test_the_report_names_the_tests_that_were_fixed(sandbox: ScriptedSandbox) -> None:
    put_repo(sandbox, project(TESTS))
    report = run("fix-tests", sandbox, Agent(FIX))
    assert verdicts(report, "verify").fixed == ("test_shop.py::test_price",)


def test_tests_that_lack_a_tool_or_the_network_are_not_the_agents_to_fix(
    sandbox: ScriptedSandbox,
) -> None:
    put_repo(sandbox, project(TESTS + NEEDS_TOOL + NEEDS_NETWORK))
    agent = Agent(FIX)
    report = run("fix-tests", sandbox, agent)
    found = verdicts(report, "verify")
    assert report.status == "success"
    assert {test.name: test.message for test in found.environment} == {
        "test_shop.py::test_page": "the sandbox has no no-such-less",
        "test_shop.py::test_fetch": "there is no network",
    }
    assert "Not to be fixed" in agent.prompts["fix"]


def test_tests_that_fail_likewise_at_the_newest_tag_are_environment(
    sandbox: ScriptedSandbox,
) -> None:
    released(sandbox, TESTS + NEEDS_HOST)
    report = run("fix-tests", sandbox, Agent(FIX))
    found = verdicts(report, "verify")
    assert (report.status, found.reference) == ("success", "tag v1")
    assert names(found.environment) == ["test_shop.py::test_host"]


def test_a_test_that_failed_for_another_reason_at_the_tag_is_the_agents_to_fix(
    sandbox: ScriptedSandbox,
) -> None:
    repo = released(sandbox, TESTS + NEEDS_HOST)
    commit_files(repo, {"test_shop.py": (TESTS + NEEDS_HOST.replace("host'", "bug'")).encode()})
    report = run("fix-tests", sandbox, Agent(FIX))
    assert names(verdicts(report, "reproduce").failed) == [
        "test_shop.py::test_host",
        "test_shop.py::test_price",
    ]


def test_a_network_failure_that_a_good_commit_does_not_have_is_the_agents_to_fix(
    sandbox: ScriptedSandbox,
) -> None:
    repo = put_repo(sandbox, project("def test_fetch(): pass\n"))
    run_git(repo, "tag", "v1")
    commit_files(repo, {"test_shop.py": NEEDS_NETWORK.encode()})
    report = run("fix-tests", sandbox, Agent())
    assert names(verdicts(report, "reproduce").failed) == ["test_shop.py::test_fetch"]


def test_the_option_good_names_the_commit_to_compare_with(sandbox: ScriptedSandbox) -> None:
    repo = put_repo(sandbox, project(TESTS + NEEDS_HOST, GOOD))
    good = run_git(repo, "rev-parse", "HEAD")
    commit_files(repo, {"shop.py": BAD.encode()})
    report = run("fix-tests", sandbox, Agent(FIX), good=good)
    assert (report.status, verdicts(report, "verify").reference) == ("success", good)


def test_running_at_an_earlier_commit_leaves_the_files_as_they_were(
    sandbox: ScriptedSandbox,
) -> None:
    repo = released(sandbox, TESTS + NEEDS_HOST)
    run("fix-tests", sandbox, Agent(change("new", "x")))
    assert run_git(repo, "log", "--format=%D", "-1") == "HEAD -> main"
    assert (repo / "shop.py").read_text() == BAD


def test_no_agent_is_asked_when_only_the_environment_fails(sandbox: ScriptedSandbox) -> None:
    put_repo(sandbox, project(TESTS + NEEDS_TOOL, GOOD))
    agent = Agent(FIX)
    report = run("fix-tests", sandbox, agent)
    assert (report.failed_node, agent.prompts) == ("reproduce", {})
    assert "the sandbox has no no-such-less" in (report.error or "")


def test_a_test_that_a_fix_breaks_is_a_failure(sandbox: ScriptedSandbox) -> None:
    tests = TESTS + "def test_type(): assert isinstance(price(), int)\n"
    put_repo(sandbox, project(tests))
    report = run("fix-tests", sandbox, Agent(change("shop.py", "def price(): return 3.0\n")))
    assert report.status == "failure"
    assert names(verdicts(report, "verify").failed) == ["test_shop.py::test_type"]


def test_a_fix_that_skips_the_failing_test_is_refused(sandbox: ScriptedSandbox) -> None:
    put_repo(sandbox, project(TESTS))
    skipped = TESTS.replace("def test_price", "import pytest\n@pytest.mark.skip\ndef test_price")
    report = run("fix-tests", sandbox, Agent(change("test_shop.py", skipped)))
    assert "it failed before and is skipped now" in str(verdicts(report, "verify").failed)


def test_a_fix_that_deletes_the_failing_test_is_refused(sandbox: ScriptedSandbox) -> None:
    put_repo(sandbox, project(TESTS))
    agent = Agent(change("test_shop.py", "def test_other(): pass\n"))
    report = run("fix-tests", sandbox, agent)
    assert "it failed before and does not exist now" in str(verdicts(report, "verify").failed)


def test_a_fixed_syntax_error_in_a_test_file_counts_as_fixed(sandbox: ScriptedSandbox) -> None:
    put_repo(sandbox, {"shop.py": "def price(: return 3\n", "test_shop.py": TESTS})
    assert run("fix-tests", sandbox, Agent(FIX)).status == "success"


ONCE = (
    "def test_flaky():\n"
    "    seen = os.path.exists('.git/seen'); open('.git/seen', 'w')\n"
    "    assert seen\n"
)


def test_a_test_that_fails_only_now_and_then_is_named_and_left_alone(
    sandbox: ScriptedSandbox,
) -> None:
    put_repo(sandbox, project(TESTS + ONCE))
    report = run("fix-tests", sandbox, Agent(FIX))
    assert report.status == "success"
    assert verdicts(report, "verify").flaky == ("test_shop.py::test_flaky",)


def test_no_agent_is_asked_about_tests_that_pass_when_run_again(sandbox: ScriptedSandbox) -> None:
    put_repo(sandbox, project(TESTS + ONCE, GOOD))
    report = run("fix-tests", sandbox, Agent())
    assert (report.status, statuses(report)["fix"]) == ("success", "skipped")


def test_a_test_that_starts_to_fail_now_and_then_costs_no_second_attempt(
    sandbox: ScriptedSandbox,
) -> None:
    put_repo(sandbox, project(TESTS))
    agent = Agent({**FIX, "test_new.py": f"import os\n{ONCE}"})
    assert run("fix-tests", sandbox, agent).status == "success"
    assert list(agent.prompts) == ["fix"]


def test_a_failure_outside_of_all_tests_is_still_a_failure(sandbox: ScriptedSandbox) -> None:
    put_repo(sandbox, project(TESTS))
    line = "python3 -m pytest -q && test -e done"
    report = run("fix-tests", sandbox, Agent(FIX), test=line)
    assert report.status == "failure"


def test_secrets_in_messages_of_tests_are_redacted(sandbox: ScriptedSandbox) -> None:
    put_repo(sandbox, project("def test_it(): assert 0, 'a-long-secret'\n"))
    run_node = NodeRunner(sandbox, Agent(), redact=lambda text: text.replace("a-long-secret", "…"))
    node = deterministic("reproduce", "See the tests fail", expect_failing_tests)
    result = run_node(node, context(sandbox))
    assert result.tests is not None
    assert "a-long-secret" not in str(result)
