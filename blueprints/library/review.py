"""review: an agent reviews the newest commits and changes nothing."""

from pathlib import Path

from blueprints.dsl import agentic, blueprint, deterministic, preflight
from blueprints.prompts import prompt_template
from nodes.changes import (
    REVIEW_OPTIONS,
    changes_to_review,
    current_commit,
    unchanged_since,
)
from nodes.checks import has_tools, work_tree_clean

_PROMPTS = Path(__file__).parent / "prompts"
_READ_ONLY = (
    "read",
    "search",
    "shell(git diff*)",
    "shell(git log*)",
    "shell(git show*)",
    "shell(git grep*)",
    "shell(git blame*)",
)

review = blueprint(
    "review",
    "Review the newest changes; the review is the output, nothing is changed",
    [
        preflight("tools", "Git is there", has_tools("git")),
        preflight("clean", "Nothing is uncommitted", work_tree_clean),
        preflight("base", "The commit under review", current_commit),
        deterministic("changes", "Collect the changes to review", changes_to_review),
        agentic(
            "review",
            "Read the changes and write the review",
            prompt=prompt_template(_PROMPTS / "review.md.j2"),
            allowed_tools=_READ_ONLY,
        ),
        deterministic("unchanged", "Nothing was changed", unchanged_since("base")),
    ],
    options=REVIEW_OPTIONS,
)
