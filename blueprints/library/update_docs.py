"""update-docs: an agent brings the documentation up to date with the newest changes."""

from pathlib import Path

from blueprints.dsl import (
    agentic,
    blueprint,
    deterministic,
    preflight,
    pull_request,
    step,
    validate,
)
from blueprints.prompts import prompt_template
from blueprints.types import Blueprint
from nodes.changes import (
    REVIEW_OPTIONS,
    changes_since_release,
    changes_to_review,
    commit_since,
    current_commit,
    only_documentation_since,
)
from nodes.checks import has_tools, work_tree_clean
from nodes.types import NodeFunction

_PROMPTS = Path(__file__).parent / "prompts"
_TOOLS = (
    *("read", "search", "edit", "write"),
    *("shell(git diff*)", "shell(git log*)", "shell(git show*)", "shell(git grep*)"),
)


def _documenting(name: str, description: str, *, look: NodeFunction, prompt: str) -> Blueprint:
    """Return a blueprint whose agent looks at changes and then changes documentation only."""
    return blueprint(
        name,
        description,
        [
            preflight("tools", "Git is there", has_tools("git")),
            preflight("clean", "Nothing is uncommitted", work_tree_clean),
            preflight("base", "The commit to start from", current_commit),
            deterministic("changes", "Collect the changes", look),
            agentic(
                "write",
                "Read the changes and write",
                prompt=prompt_template(_PROMPTS / prompt),
                allowed_tools=_TOOLS,
            ),
            validate(
                "only-docs",
                "Only documentation was changed",
                steps=[step("files", only_documentation_since("base"))],
                on_failure=agentic(
                    "undo",
                    "Undo the other changes",
                    prompt=prompt_template(_PROMPTS / "only_docs.md.j2"),
                ),
            ),
            deterministic("commit", "Commit the changes", commit_since("base", needed=False)),
            pull_request("open", "Open a pull request", by="write"),
        ],
        options=REVIEW_OPTIONS,
    )


update_docs = _documenting(
    "update-docs",
    "Bring the documentation up to date with the newest changes",
    look=changes_to_review,
    prompt="update_docs.md.j2",
)

release_notes = _documenting(
    "release-notes",
    "Write the changelog since the last release",
    look=changes_since_release,
    prompt="release_notes.md.j2",
)
