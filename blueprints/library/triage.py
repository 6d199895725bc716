"""triage: an agent labels and answers a new issue; it changes nothing."""

from pathlib import Path

from blueprints.dsl import agentic, blueprint, comment, deterministic, label, preflight
from blueprints.prompts import prompt_template
from nodes.changes import current_commit, unchanged_since
from nodes.checks import has_tools
from nodes.issue import about_an_issue

_PROMPTS = Path(__file__).parent / "prompts"
_READ_ONLY = ("read", "search", "shell(git log*)", "shell(git show*)", "shell(git grep*)")
_LABELS = ("bug", "documentation", "enhancement", "question")

triage = blueprint(
    "triage",
    "Label and answer a new issue; nothing is changed",
    [
        preflight("tools", "Git is there", has_tools("git")),
        preflight("issue", "There is an issue to look at", about_an_issue),
        preflight("base", "The commit to look at", current_commit),
        agentic(
            "look",
            "Find out what the issue is about",
            prompt=prompt_template(_PROMPTS / "triage.md.j2"),
            allowed_tools=_READ_ONLY,
        ),
        deterministic("unchanged", "Nothing was changed", unchanged_since("base")),
        label("labels", "What kind of issue it is", _LABELS, max_count=2),
        comment("answer", "An answer for the author of the issue"),
    ],
)
