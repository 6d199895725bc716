"""Descriptions of the fields of a run request, shown by the form and the command line."""

from collections.abc import Mapping

DESCRIPTIONS: Mapping[str, str] = {
    "blueprint": (
        "A name from `harness blueprints list`, or FILE:NAME. In Prefect a file must be listed in "
        "the setting `allowed_blueprints`."
    ),
    "repo": "Path or URL of the git repository to work on, such as /srv/git/my-project.",
    "intent": 'What you want, in your own words, such as "make the tests pass".',
    "ref": "Branch, tag or commit to start from; HEAD of the repository if empty.",
    "agent": "The agent for agentic nodes that name none.",
    "model": (
        "A litellm name such as anthropic/claude-sonnet-5-5, or scripted/FILE; the configured one "
        "if empty."
    ),
    "push": "Push the branch if every node succeeded.",
    "budget_usd": (
        "US dollars that the agents of this run may spend together; the configured limit if empty."
    ),
    "options": "Options of the blueprint, by name.",
    "user": "User whose private notes and examples the agents are given.",
    "company": "Company whose notes and examples the agents are given.",
    "secrets": (
        'Variable to the name of a Prefect Secret block, such as {"OPENAI_API_KEY": "team-a-key"}. '
        "Never the secret itself: the server stores this field."
    ),
    "intent_from": (
        "Where an untrusted intent came from, such as issue:17. Nothing in such an intent counts "
        "as your decision. Empty if the intent is yours."
    ),
    "allow_change": (
        "Patterns of protected files that this run may change and push, such as "
        ".github/workflows/*. Nothing that the intent says permits it."
    ),
    "wait_approvals_s": (
        "Seconds an agent waits for your decision before it continues without the action."
    ),
}
