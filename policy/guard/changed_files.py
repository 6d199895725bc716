"""The work that is collected from a sandbox: which protected files it changes without permission.

A shell line, a test or a build can write a file on a way that no guard of tool calls sees. So the
changes themselves are looked at, whoever made them.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from hashlib import sha1, sha256
from typing import NamedTuple

from contracts.json import Json, json_digest
from contracts.model_access import GuardBounds
from contracts.tool import Denied
from policy.errors import TooManyLinks
from policy.guard.guard import (
    GUARD_VERSION,
    describe_protected,
    is_permitted,
    is_protected,
    workspace_path,
)
from policy.guard.links import SymbolicLinks
from policy.plan.approval_request import ApprovalRequest
from policy.types import Approval

COLLECTED_WORK = "the collected work"
"""Stands in an approval where the node of an agent's call does."""

_MOST_LINKED = 10
"""Files of which one refusal tells by which link they are protected."""

_OP = "collect"
_PLAIN_FILE = "100644"
_LONGEST_SHA1 = len(_PLAIN_FILE) + 1 + 40


class ChangedFile(NamedTuple):
    """One file that the work changes; `before` and `after` name its mode and its content."""

    path: str
    before: str
    after: str


class ForbiddenChange(NamedTuple):
    """A change of a protected file that nothing permits.

    `name` is by which name the file is protected: its path, or one by which a link leads to it.
    None: nobody can tell, for the links are too many to follow.
    """

    change: ChangedFile
    protected_name: str | None


def forbidden_changes(
    changes: Iterable[ChangedFile], bounds: GuardBounds, links: SymbolicLinks
) -> tuple[ForbiddenChange, ...]:
    """The changes of protected files that neither `--allow-change` nor the blueprint permits."""
    found = (_unpermitted(change, bounds, links) for change in changes)
    return tuple(one for one in found if one is not None)


def _unpermitted(
    change: ChangedFile, bounds: GuardBounds, links: SymbolicLinks
) -> ForbiddenChange | None:
    """None where the path is permitted, or every name of the file that is protected is.

    So a link `x.lock -> .github/ci.yml` and the pattern `*.lock` permit no change of that file.
    """
    if is_permitted(change.path, bounds):
        return None
    try:
        for name in links.names_of(change.path):
            if is_protected(name, bounds) and not is_permitted(name, bounds):
                return ForbiddenChange(change, name)
    except TooManyLinks:
        return ForbiddenChange(change, None)
    return None


def forbidden_message(found: Sequence[ForbiddenChange]) -> str:
    """What the work changes without permission, why each counts, and which options permit it."""
    linked = [
        f"{one.change.path!r} is also {one.protected_name!r} through a link"
        for one in found[:_MOST_LINKED]
        if one.protected_name not in (None, one.change.path)
    ]
    if any(one.protected_name is None for one in found):
        linked.append("the symbolic links are too many to follow, so each file counts as protected")
    named = describe_protected([one.change.path for one in found])
    through = f" ({'; '.join(linked)})" if linked else ""
    return f"the work changes {named}{through}"


def was_approved(found: ForbiddenChange, approvals: Iterable[Approval]) -> bool:
    """Whether a person has let an agent write exactly this file with exactly this content."""
    change = found.change
    for approval in approvals:
        content = approval.arguments.get("content")
        if approval.status != "used" or not isinstance(content, str):
            continue
        path = approval.arguments.get("path") or approval.arguments.get("file_path")
        same = workspace_path(str(path)) in (change.path, found.protected_name)
        if same and change.after == f"{_PLAIN_FILE} {_git_name(content, like=change.after)}":
            return True
    return False


def _git_name(content: str, *, like: str) -> str:
    """What git calls a file of this content, by the kind of hash that `like` is of."""
    data = content.encode("utf-8", "surrogatepass")
    kind = sha256 if len(like) > _LONGEST_SHA1 else partial(sha1, usedforsecurity=False)
    return kind(b"blob %d\0" % len(data) + data).hexdigest()


def change_request(
    found: ForbiddenChange, bounds: GuardBounds, *, run_id: str, diff: str
) -> ApprovalRequest:
    """May exactly this content be there, in the place of exactly that? `diff` is to look at."""
    taint, change = frozenset(bounds.taint), found.change
    path = change.path.encode("utf-8", "backslashreplace").decode()
    exact: Mapping[str, Json] = {"path": path, "before": change.before, "after": change.after}
    denied = Denied(
        reason=forbidden_message([found]),
        rule="C4",
        argument="/path",
        tags=taint,
        provenance=(*sorted(taint), "what the run saw", COLLECTED_WORK),
    )
    return ApprovalRequest(
        action=json_digest({"run": run_id, "op": _OP, "policy": GUARD_VERSION, **exact}),
        run_id=run_id,
        step=0,
        op=_OP,
        arguments={"path": path, "diff": diff},
        denied=denied,
        node=COLLECTED_WORK,
        agent="git",
    )
