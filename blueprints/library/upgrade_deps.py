"""upgrade-deps: upgrade dependencies within the limits of the intent, run the tests, commit."""

from pathlib import Path

from blueprints.dsl import agentic, blueprint, deterministic, preflight, step, validate
from blueprints.prompts import prompt_template
from contracts.run import NodeResult, RunContext
from contracts.sandbox import Sandbox
from nodes.changes import commit_since, current_commit
from nodes.checks import has_tools, was_skipped
from nodes.projects.options import PROJECT_OPTIONS
from nodes.projects.work import (
    find_dependency_files,
    look_for_tests,
    require_install,
    run_tests,
)
from policy.guard.protected import lock_files

_PROMPTS = Path(__file__).parent / "prompts"
_no_tests = was_skipped("project")


def run_tests_if_any(ctx: RunContext, sandbox: Sandbox) -> NodeResult:
    """Run the project's tests; skipped if it has none."""
    return NodeResult.skipped("there are no tests") if _no_tests(ctx) else run_tests(ctx, sandbox)


upgrade_deps = blueprint(
    "upgrade-deps",
    "Upgrade dependencies within what the intent allows, run the tests, commit",
    [
        preflight("tools", "Git is there", has_tools("git")),
        preflight("base", "The commit to start from", current_commit),
        preflight("dependencies", "Files that name dependencies", find_dependency_files),
        preflight("project", "Look for how the project is tested", look_for_tests),
        deterministic("install", "Install the project", require_install),
        deterministic("baseline", "The tests pass before", run_tests, skip=_no_tests),
        agentic(
            "upgrade",
            "Upgrade the dependencies",
            prompt=prompt_template(_PROMPTS / "upgrade_deps.md.j2"),
        ),
        validate(
            "verify",
            "It installs and all tests pass",
            steps=[step("install", require_install), step("test", run_tests_if_any)],
            on_failure=agentic(
                "fix",
                "Fix what the upgrade broke",
                prompt=prompt_template(_PROMPTS / "upgrade_deps_fix.md.j2"),
            ),
        ),
        deterministic("commit", "Commit all changes", commit_since("base")),
    ],
    changes=lock_files(),
    options={
        **PROJECT_OPTIONS,
        "versions": "versions to upgrade to, such as 'django==5.2 redis>=6,<7'",
    },
)
