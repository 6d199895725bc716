"""A round for a pull request that conflicts with its base: its files get the newest base merged.

The conflicts stay in the files for the agent. From then on the run's base is that newer commit, so
that its work is compared with it.
"""

from dataclasses import replace
from functools import partial

from contracts.errors import GitFailed
from contracts.run import NodeResult, RunContext
from contracts.sandbox import Sandbox
from flows.execution.dependencies import RunDependencies
from flows.runs.checkpoint import Checkpoint, round_name
from flows.runs.request import ResolvedRequest
from nodes.types import Deterministic
from sandbox.branches import push_address
from sandbox.merges import conflicts
from sandbox.repos import BaseCommit, fetch_newer_base
from sandbox.workspace import merge_into_sandbox

MERGE_TASK = (
    "The pull request of your work conflicts with its base branch. The newest commit of that "
    "branch has just been merged into your files, and the merge is not committed: `git status` "
    "names the files with conflicts, and the conflict markers are in them. Resolve every conflict "
    "so that both the changes of the base branch and your work stay; remove all markers. Do not "
    "abort the merge and do not undo changes of the base branch. Your work is committed, checked "
    "and pushed when you are done."
)


def conflicting_base(
    request: ResolvedRequest, dependencies: RunDependencies, now: Checkpoint, branch: str
) -> BaseCommit | None:
    """Return the newest commit of the base branch; None if the pushed work does not conflict.

    Raises:
        RepoInvalid, GitFailed: the remote or git does not answer this.
    """
    remote = push_address(now.base)
    if remote is None or now.pull is None:
        return None
    newer = fetch_newer_base(now.base, remote, branch)
    if not conflicts(newer, now.pull.commit):
        return None
    inspected = dependencies.inspect_base(request, newer)
    return replace(inspected, notices=tuple(dict.fromkeys(inspected.notices)))


def merge_node(base: BaseCommit, number: int) -> Deterministic:
    """Return the node that merges the base into the files before the agent of a round works."""
    return Deterministic(
        round_name(number, "merge"), "Merge the newest base", exec=partial(_merge, base)
    )


def _merge(base: BaseCommit, ctx: RunContext, sandbox: Sandbox) -> NodeResult:  # noqa: ARG001 - the signature of a node's function
    try:
        paths = merge_into_sandbox(sandbox, base)
    except GitFailed as error:
        return NodeResult.failure(f"the base cannot be merged: {error}")
    return NodeResult.success("\n".join(("conflicts in:", *paths)) if paths else "no conflicts")
