"""implement: plan, change the code, run the tests, commit."""

from pathlib import Path

from blueprints.dsl import agentic, blueprint, deterministic, preflight, step, validate
from blueprints.prompts import prompt_template
from nodes.changes import commit_since, current_commit
from nodes.checks import has_tools, was_skipped
from nodes.projects.options import PROJECT_OPTIONS
from nodes.projects.work import install_project, look_for_tests, run_tests

_PROMPTS = Path(__file__).parent / "prompts"
_READ_ONLY = ("read", "search", "shell(git log*)", "shell(git show*)", "shell(git grep*)")


implement = blueprint(
    "implement",
    "Investigate, implement what is asked for, run the tests, commit",
    [
        preflight("tools", "Git is there", has_tools("git")),
        preflight("base", "The commit to start from", current_commit),
        preflight("project", "Look for how the project is tested", look_for_tests),
        deterministic("install", "Install the project", install_project),
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
            "All tests pass",
            steps=[step("test", run_tests)],
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
