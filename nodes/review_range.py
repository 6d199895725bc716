"""Which commits a review is about, and what they change."""

from contracts.run import NodeResult, RunContext
from contracts.sandbox import Command, Sandbox
from nodes.node_sandbox import discard_output
from nodes.text import truncate_middle

MAX_DIFF_CHARS = 48 * 1024
"""Characters of the diff that are shown at once; the range is named, so the rest can be read."""

BASE_OPTION = "base"
REVIEW_OPTIONS = {BASE_OPTION: "review what HEAD adds to this branch, tag or commit"}
_USUAL_BASES = ("origin/HEAD", "origin/main", "origin/master", "main", "master")


def changes_to_review(ctx: RunContext, sandbox: Sandbox) -> NodeResult:
    """The commits and the diff of HEAD against where it left its base.

    The base is the option `base`, to which HEAD must add something; else the first usual main
    branch that HEAD has left; without one it is the last commit, or everything when there is
    only one commit.
    """
    told = ctx.options.get(BASE_OPTION, "")
    if told and _git(sandbox, "rev-parse", "-q", "--verify", f"{told}^{{commit}}") is None:
        return NodeResult.failure(f"no commit {told!r} in the sandbox: --set base= names none")
    if told and _git(sandbox, "merge-base", "--is-ancestor", "HEAD", told) is not None:
        return NodeResult.failure(f"nothing to review: HEAD adds nothing to {told!r}")
    base, why = _base(sandbox, (told,) if told else _USUAL_BASES)
    span = f"{base}..HEAD"
    log = _git(sandbox, "log", "--no-color", "--format=%h %an: %s", span) or ""
    stat = _git(sandbox, "diff", "--no-color", "--no-ext-diff", "--stat", span) or ""
    diff = _git(sandbox, "diff", "--no-color", "--no-ext-diff", span) or ""
    if not diff:
        return NodeResult.failure(f"nothing to review: {span} ({why}) changes nothing")
    return NodeResult.success(
        f"{span} ({why})\n\n{log}\n\n{stat}\n\n{truncate_middle(diff, MAX_DIFF_CHARS)}"
    )


def _base(sandbox: Sandbox, candidates: tuple[str, ...]) -> tuple[str, str]:
    current = _git(sandbox, "rev-parse", "HEAD")
    for name in candidates:
        left = _git(sandbox, "merge-base", "HEAD", name)
        if left and left != current:
            return left, f"since it left {name}"
    if parent := _git(sandbox, "rev-parse", "-q", "--verify", "HEAD~1"):
        return parent, "the last commit"
    return _git(sandbox, "hash-object", "-t", "tree", "/dev/null") or "", "the first commit"


def _git(sandbox: Sandbox, *args: str) -> str | None:
    result = sandbox.exec(Command(argv=("git", *args)), discard_output)
    return result.stdout.decode("utf-8", "replace").strip() if result.ok else None
