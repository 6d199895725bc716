"""ci-doctor: explain a failed check of the forge, and fix what the repository causes."""

from pathlib import Path

from blueprints.dsl import (
    agentic,
    blueprint,
    comment,
    deterministic,
    preflight,
    pull_request,
    step,
    validate,
)
from blueprints.library.implement import expect_no_new_failure, run_baseline
from blueprints.prompts import prompt_template
from nodes.changes import commit_since, current_commit
from nodes.checks import has_tools, was_skipped
from nodes.issue import about_a_failure
from nodes.projects.options import PROJECT_OPTIONS
from nodes.projects.work import install_project, look_for_tests

_PROMPTS = Path(__file__).parent / "prompts"

ci_doctor = blueprint(
    "ci-doctor",
    "Explain why a check failed, and fix what the repository causes",
    [
        preflight("tools", "Git is there", has_tools("git")),
        preflight("failure", "A check has failed", about_a_failure),
        preflight("base", "The commit whose check failed", current_commit),
        preflight("project", "Look for how the project is tested", look_for_tests),
        deterministic("install", "Install the project", install_project),
        deterministic(
            "baseline", "See which tests fail", run_baseline, skip=was_skipped("project")
        ),
        agentic(
            "mend",
            "Find the cause and mend it",
            prompt=prompt_template(_PROMPTS / "ci_doctor.md.j2"),
        ),
        validate(
            "verify",
            "No test fails that passed before",
            steps=[step("test", expect_no_new_failure)],
            on_failure=agentic(
                "mend-again",
                "Mend the change",
                prompt=prompt_template(_PROMPTS / "ci_doctor_fix.md.j2"),
            ),
            skip=was_skipped("project"),
        ),
        deterministic("commit", "Commit the changes", commit_since("base", needed=False)),
        comment("explain", "Explain the failure on the pull request", on="pull_request", by="mend"),
        pull_request("open", "Open a pull request with the fix", by="mend"),
    ],
    options=PROJECT_OPTIONS,
    reads_checks=True,
)
