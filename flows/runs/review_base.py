"""What a review compares with: named where the branches are, a commit where the run works."""

from flows.runs.request import ResolvedRequest
from nodes.changes import BASE_OPTION, REVIEW_OPTIONS
from sandbox.repos import BaseCommit


def review_base(request: ResolvedRequest) -> str | None:
    """The branch, tag or commit that a review was told; None: the usual main branch."""
    takes = dict(request.definition.options).get(BASE_OPTION) == REVIEW_OPTIONS[BASE_OPTION]
    return request.options.get(BASE_OPTION) or None if takes else None


def request_in_sandbox(request: ResolvedRequest, base: BaseCommit) -> ResolvedRequest:
    """The request as nodes are given it: the sandbox has no branch and no tag of the source's."""
    if review_base(request) is None or base.forked_at is None:
        return request
    return request.changed(options={**request.options, BASE_OPTION: base.forked_at})
