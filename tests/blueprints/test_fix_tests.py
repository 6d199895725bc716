"""fix-tests on small real repositories, with plain functions for agents."""

from dataclasses import replace

import pytest

from blueprints.engine import execute_blueprint
from blueprints.find import find_blueprint
from contracts.run import RunReport
from sandbox.scripted import ScriptedSandbox
from tests.support.built_in import (
    BROKEN,
    FIX,
    GOOD_SHOP,
    SHOP,
    Agent,
    Committing,
    change,
    output,
    run,
    statuses,
)
from tests.support.git_repos import run_git
from tests.support.workspace import context, put_repo


def test_fix_tests_succeeds_when_the_agent_fixes_the_code(sandbox: ScriptedSandbox) -> None:
    put_repo(sandbox, SHOP)
    assert run("fix-tests", sandbox, Agent(FIX)).status == "success"


def test_fix_tests_changes_only_the_fixed_file(sandbox: ScriptedSandbox) -> None:
    repo = put_repo(sandbox, SHOP)
    run("fix-tests", sandbox, Agent(FIX))
    assert run_git(repo, "status", "--porcelain") == "M src/shop/__init__.py"


def test_fix_tests_prompts_with_the_failure_and_the_intent(sandbox: ScriptedSandbox) -> None:
    put_repo(sandbox, SHOP)
    agent = Agent(FIX)
    run("fix-tests", sandbox, agent, intent="sums are wrong")
    assert "assert -1 == 3" in agent.prompts["fix"]
    assert "sums are wrong" in agent.prompts["fix"]


def test_fix_tests_prompts_again_with_the_remaining_failure(sandbox: ScriptedSandbox) -> None:
    put_repo(sandbox, SHOP)
    agent = Agent(change("src/shop/__init__.py", BROKEN.replace("-", "*")), FIX)
    assert run("fix-tests", sandbox, agent).status == "success"
    assert "assert 2 == 3" in agent.prompts["fix-again (attempt 1)"]


def test_fix_tests_fails_when_no_round_helps(sandbox: ScriptedSandbox) -> None:
    put_repo(sandbox, SHOP)
    report = run("fix-tests", sandbox, Agent())
    assert report.error == "node 'verify' failed: test still failed after 3 attempts of 3"


IGNORED = {
    "app.py": "from local import RATE\n",
    "test_app.py": "import app\ndef test_it(): assert app.RATE == 3\n",
    ".gitignore": "local.py\n",
}


def test_fix_tests_fails_when_git_ignores_all_of_the_fix(sandbox: ScriptedSandbox) -> None:
    put_repo(sandbox, IGNORED)
    agent = Agent(change("local.py", "RATE = 3\n"))
    assert run("fix-tests", sandbox, agent).status == "failure"
    assert "is the fix in a file that .gitignore names?" in agent.prompts["fix-again (attempt 2)"]


def test_fix_tests_accepts_a_second_fix_in_a_tracked_file(sandbox: ScriptedSandbox) -> None:
    put_repo(sandbox, IGNORED)
    agent = Agent(change("local.py", "RATE = 3\n"), change("app.py", "RATE = 3\n"))
    assert run("fix-tests", sandbox, agent).status == "success"


def test_fix_tests_accepts_a_fix_that_the_agent_committed(sandbox: ScriptedSandbox) -> None:
    repo = put_repo(sandbox, SHOP)
    assert run("fix-tests", sandbox, Committing(repo, FIX)).status == "success"


def test_fix_tests_has_nothing_to_do_when_tests_pass(sandbox: ScriptedSandbox) -> None:
    put_repo(sandbox, GOOD_SHOP)
    agent = Agent()
    report = run("fix-tests", sandbox, agent)
    assert output(report, "reproduce").startswith("the tests already pass")
    assert (report.status, agent.prompts) == ("success", {})


def test_fix_tests_skips_the_other_nodes_when_tests_pass(sandbox: ScriptedSandbox) -> None:
    put_repo(sandbox, GOOD_SHOP)
    ended = statuses(run("fix-tests", sandbox, Agent()))
    assert (ended["fix"], ended["verify"]) == ("skipped", "skipped")


def test_fix_tests_fails_without_a_test_command(sandbox: ScriptedSandbox) -> None:
    put_repo(sandbox)
    report = run("fix-tests", sandbox, Agent())
    assert "--set test=" in (report.error or "")


def test_fix_tests_uses_the_option_test(sandbox: ScriptedSandbox) -> None:
    put_repo(sandbox, {"value": "bad\n"})
    report = run("fix-tests", sandbox, Agent(change("value", "good\n")), test="grep good value")
    assert report.status == "success"


@pytest.mark.parametrize("line", ["sh -c 'exit 127'", "sh -c 'exit 126'"])
def test_fix_tests_does_not_fix_a_test_command_that_cannot_run(
    sandbox: ScriptedSandbox, line: str
) -> None:
    put_repo(sandbox, SHOP)
    agent = Agent(FIX)
    report = run("fix-tests", sandbox, agent, test=line)
    assert "could not be run" in (report.error or "")
    assert agent.prompts == {}


def test_fix_tests_does_not_fix_a_missing_compiler(sandbox: ScriptedSandbox) -> None:
    put_repo(sandbox, {"Makefile": "test:\n\tno-such-cc -o a a.c\n"})
    agent = Agent(FIX)
    report = run("fix-tests", sandbox, agent)
    assert "not in the sandbox: no-such-cc. " in (report.error or "")
    assert report.nodes[-1].lacks == ("no-such-cc",)
    assert agent.prompts == {}


@pytest.mark.parametrize(
    ("line", "lacks", "advice"),
    [
        ("subprocess.run(['no-such-pager'])", "the sandbox has no no-such-pager", "packages="),
        ("raise OSError('no display name and no $DISPLAY')", "there is no display", "xvfb-run"),
        ("raise OSError('Network is unreachable')", "there is no network", "[sandbox] egress"),
        (
            "raise OSError('connect ECONNREFUSED 127.0.0.1:5432')",
            "there is no PostgreSQL (port 5432)",
            "has no services",
        ),
        (
            "raise ImportError(\"No module named 'tkinter'\")",
            "the sandbox has no tkinter",
            "python3-tk",
        ),
    ],
)
def test_fix_tests_ends_before_an_agent_when_only_the_environment_fails(
    sandbox: ScriptedSandbox, line: str, lacks: str, advice: str
) -> None:
    put_repo(sandbox, {"test_a.py": f"import subprocess\ndef test_it():\n    {line}\n"})
    agent = Agent(FIX)
    report = run("fix-tests", sandbox, agent)
    assert report.nodes[-1].lacks == (lacks,)
    assert advice in (report.error or "")
    assert agent.prompts == {}


def test_fix_tests_prompts_with_a_refused_connection_of_the_project_itself(
    sandbox: ScriptedSandbox,
) -> None:
    put_repo(sandbox, {"test_a.py": "def test_it(): raise OSError('refused, 127.0.0.1:8731')\n"})
    agent = Agent()
    run("fix-tests", sandbox, agent)
    assert "127.0.0.1:8731" in agent.prompts["fix"]


def test_fix_tests_does_not_fix_a_package_that_no_index_has(sandbox: ScriptedSandbox) -> None:
    put_repo(sandbox, SHOP)
    agent = Agent(FIX)
    line = "echo ERROR: No matching distribution found for acme==2.1; exit 1"
    report = run("fix-tests", sandbox, agent, install=line)
    assert report.nodes[-1].lacks == ("acme==2.1",)
    assert "no package index that the sandbox reaches has acme==2.1" in (report.error or "")
    assert agent.prompts == {}


def test_fix_tests_does_not_fix_a_version_that_the_sandbox_lacks(sandbox: ScriptedSandbox) -> None:
    put_repo(sandbox, SHOP)
    agent = Agent(FIX)
    line = "echo 'go: go.mod requires go >= 1.99 (running go 1.23.5; GOTOOLCHAIN=local)'; exit 1"
    report = run("fix-tests", sandbox, agent, test=line)
    assert "the project needs Go 1.99, the sandbox has 1.23.5" in (report.error or "")
    assert agent.prompts == {}


ENDLESS = {"run.sh": "echo so far\nwhile true; do sleep 1; done\n"}


def test_fix_tests_prompts_with_tests_that_hang(sandbox: ScriptedSandbox) -> None:
    put_repo(sandbox, ENDLESS)
    agent = Agent(change("other", "no help\n"), change("run.sh", "echo done\n"))
    report = run("fix-tests", sandbox, agent, test="sh run.sh", test_timeout="1")
    assert report.status == "success"
    for prompt in ("fix", "fix-again (attempt 1)"):
        assert "the tests did not end within 1 s" in agent.prompts[prompt]
        assert "so far" in agent.prompts[prompt]
    assert "the tests did not end within 1 s" in remark(report)


def test_fix_tests_prompts_with_tests_that_crash(sandbox: ScriptedSandbox) -> None:
    put_repo(sandbox, {"run.sh": "kill -SEGV $$\n"})
    agent = Agent(change("run.sh", "echo done\n"))
    report = run("fix-tests", sandbox, agent, test="sh run.sh")
    assert report.status == "success"
    assert "killed by SIGSEGV" in agent.prompts["fix"]
    assert "killed by SIGSEGV" in remark(report)


def remark(report: RunReport) -> str:
    return next(node.remark for node in report.nodes if node.name == "reproduce")


def test_a_node_at_its_time_limit_gives_no_verdict(sandbox: ScriptedSandbox) -> None:
    put_repo(sandbox, SHOP)
    whole = find_blueprint("fix-tests")
    hurried = [
        replace(node, timeout_s=0.2) if node.name == "reproduce" else node for node in whole.nodes
    ]
    report = execute_blueprint(
        replace(whole, nodes=hurried),
        context(sandbox, options={"test": "sleep 30"}),
        sandbox=sandbox,
        run_agent=Agent(FIX),
    )
    assert "timed out after 0.2 s" in (report.error or "")


def test_fix_tests_refuses_a_fix_that_deletes_the_tests(sandbox: ScriptedSandbox) -> None:
    put_repo(sandbox, SHOP)
    agent = Agent(change("tests/test_shop.py", "import pytest\n"))
    assert run("fix-tests", sandbox, agent).status == "failure"
