"""implement: plan, change the code, run the tests, commit."""

from dataclasses import replace
from pathlib import Path

from blueprints.dsl import agentic, blueprint, deterministic, preflight, step, validate
from blueprints.prompts import prompt_template
from contracts.run import NodeResult, RunContext
from contracts.sandbox import Sandbox
from nodes.changes import commit_since, current_commit
from nodes.checks import has_tools, was_skipped
from nodes.projects.options import PROJECT_OPTIONS
from nodes.projects.testing import exec_tests
from nodes.projects.verdicts import failed_before, judge_again
from nodes.projects.work import install_project, look_for_tests, rebuild

_PROMPTS = Path(__file__).parent / "prompts"
_READ_ONLY = ("read", "search", "shell(git log*)", "shell(git show*)", "shell(git grep*)")


def run_baseline(ctx: RunContext, sandbox: Sandbox) -> NodeResult:
    """Run the tests to see which of them fail already; only a missing program is a failure."""
    tests = exec_tests(ctx, sandbox)
    if tests.result.lacks:
        return tests.result
    if not tests.cases:
        return NodeResult.success(tests.result.error or "the tests pass")
    verdicts = failed_before(tests)
    return replace(NodeResult.success(str(verdicts)), tests=verdicts)


def expect_no_new_failure(ctx: RunContext, sandbox: Sandbox) -> NodeResult:
    """Run the tests; none may fail except those that failed before."""
    rebuild(ctx.results["base"].output, ctx, sandbox)
    return judge_again(exec_tests(ctx, sandbox), ctx.results["baseline"].tests, ctx, sandbox)


implement = blueprint(
    "implement",
    "Investigate, implement what is asked for, run the tests, commit",
    [
        preflight("tools", "Git is there", has_tools("git")),
        preflight("base", "The commit to start from", current_commit),
        preflight("project", "Look for how the project is tested", look_for_tests),
        deterministic("install", "Install the project", install_project),
        deterministic(
            "baseline",
            "See which tests fail already",
            run_baseline,
            skip=was_skipped("project"),
        ),
        agentic(
            "investigate",
            "Read the code and make a plan",
            prompt=prompt_template(_PROMPTS / "implement_investigate.md.j2"),
            allowed_tools=_READ_ONLY,
        ),
        agentic(
            "implement",
            "Carry the plan out",
            prompt=prompt_template(_PROMPTS / "implement.md.j2"),
        ),
        validate(
            "verify",
            "No test fails that passed before",
            steps=[step("test", expect_no_new_failure)],
            on_failure=agentic(
                "fix",
                "Fix what fails",
                prompt=prompt_template(_PROMPTS / "implement_fix.md.j2"),
            ),
            skip=was_skipped("project"),
        ),
        deterministic("commit", "Commit all changes", commit_since("base")),
    ],
    options=PROJECT_OPTIONS,
    needs_intent=True,
)
