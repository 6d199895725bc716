"""The option that names the issue of a run, and the check that there is one."""

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
