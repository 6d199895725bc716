"""fix-tests: run the tests, let an agent fix the code until they pass."""

from dataclasses import replace
from pathlib import Path

from blueprints.dsl import agentic, blueprint, deterministic, preflight, step, validate
from blueprints.prompts import prompt_template
from contracts.run import NodeResult, RunContext
from contracts.sandbox import Sandbox
from contracts.verdicts import Verdicts
from nodes.changes import head_hash, unchanged_from
from nodes.checks import has_tools
from nodes.projects.options import PROJECT_OPTIONS
from nodes.projects.show_tests import for_agent
from nodes.projects.testing import ProjectTestResult, exec_tests
from nodes.projects.verdicts import (
    GOOD_OPTIONS,
    environment_message,
    judge_again,
    judge_failing,
)
from nodes.projects.work import install_project, rebuild, require_tests

_PROMPTS = Path(__file__).parent / "prompts"
_NOTHING_TO_FIX = "the tests already pass: there is nothing to fix"
_NOTHING_COMMITTED = (
    "the tests pass now, but no file that git tracks has changed, so the branch would be empty: "
    "is the fix in a file that .gitignore names?"
)
_BASE = "base commit"


def expect_failing_tests(ctx: RunContext, sandbox: Sandbox) -> NodeResult:
    """Run the tests and succeed if they fail, with the failures that an agent can fix.

    Tests that hang, crash or run out of memory count as failing. If the tests pass, or fail only
    now and then, the node succeeds and the rest of the run is skipped. It fails if the test
    command gives no verdict, or if every failing test fails because of the environment.
    """
    tests = exec_tests(ctx, sandbox)
    if not tests.verdict:
        return tests.result
    if tests.result.status == "success":
        return NodeResult.success(_NOTHING_TO_FIX)
    facts = {_BASE: head_hash(sandbox)}
    remark = "" if tests.ended else tests.result.error or ""
    printed = f"{tests.result.error}\n\n{tests.result.output}"
    if not tests.cases:
        return replace(NodeResult.success(printed), facts=facts, remark=remark)
    verdicts = judge_failing(tests, ctx, sandbox)
    result = _reproduced(verdicts, tests)
    return replace(result, facts=facts, tests=verdicts, remark=remark)


def _reproduced(verdicts: Verdicts, tests: ProjectTestResult) -> NodeResult:
    shown = for_agent(verdicts, tests.result.output, ended=tests.ended)
    by_test = bool(verdicts.environment or verdicts.flaky) and tests.ended
    if verdicts.failed or not by_test:  # a crash or a broken build fails without a failing test
        return NodeResult.success(f"{tests.result.error}\n\n{shown}")
    if not verdicts.environment:
        return NodeResult.success(f"{_NOTHING_TO_FIX}. Flaky: {', '.join(verdicts.flaky)}")
    failed = NodeResult.failure(environment_message(verdicts.environment), shown)
    return replace(failed, lacks=tuple(dict.fromkeys(t.message for t in verdicts.environment)))


def expect_fixed_tests(ctx: RunContext, sandbox: Sandbox) -> NodeResult:
    """Run the tests; those that failed must pass and no other may fail.

    A file that git tracks must have changed.
    """
    reproduced = ctx.results["reproduce"]
    base = reproduced.facts.get(_BASE)
    if base:
        rebuild(base, ctx, sandbox)
    tests = judge_again(exec_tests(ctx, sandbox), reproduced.tests, ctx, sandbox)
    if tests.status == "success" and base and unchanged_from(base, sandbox):
        return NodeResult.failure(_NOTHING_COMMITTED, tests.output)
    return tests


def _nothing_to_fix(ctx: RunContext) -> bool:
    return ctx.results["reproduce"].output.startswith(_NOTHING_TO_FIX)


fix_tests = blueprint(
    "fix-tests",
    "See the tests fail, let an agent fix the code, see them pass",
    [
        preflight("tools", "Git is there", has_tools("git")),
        preflight("project", "The project says how it is tested", require_tests),
        deterministic("install", "Install the project", install_project),
        deterministic("reproduce", "See the tests fail", expect_failing_tests),
        agentic(
            "fix",
            "Fix what makes the tests fail",
            prompt=prompt_template(_PROMPTS / "fix_tests.md.j2"),
            skip=_nothing_to_fix,
        ),
        validate(
            "verify",
            "All tests pass",
            steps=[step("test", expect_fixed_tests)],
            on_failure=agentic(
                "fix-again",
                "Fix what still fails",
                prompt=prompt_template(_PROMPTS / "fix_tests_again.md.j2"),
            ),
            skip=_nothing_to_fix,
        ),
    ],
    options={**PROJECT_OPTIONS, **GOOD_OPTIONS},
)
