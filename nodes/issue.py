"""What a run is about on a forge: the option that names an issue, and checks that there is one."""

from contracts.run import NodeResult, RunContext
from contracts.sandbox import Sandbox

ISSUE_OPTION = "issue"
ISSUE_OPTIONS = {ISSUE_OPTION: "number of the issue on the forge; its text becomes the intent"}


def about_an_issue(ctx: RunContext, _: Sandbox) -> NodeResult:
    """Fail if the run was started for nothing."""
    if ctx.intent.strip():
        return NodeResult.success()
    return NodeResult.failure(
        f"no issue is given: --set {ISSUE_OPTION}=17 names one, and a webhook brings its own"
    )


def about_a_failure(ctx: RunContext, _: Sandbox) -> NodeResult:
    """Fail if the run knows of no failed check."""
    if ctx.intent.strip():
        return NodeResult.success()
    return NodeResult.failure(
        "no failed check is known: the forge shows none for this commit, or there is no token for "
        "it. Start from another branch (--ref), or say as the intent what failed"
    )
