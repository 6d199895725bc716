"""The work that is collected from a sandbox: whether it changes what decides what others run.

A shell line, a test or a build can write a file on a way that no guard of tool calls sees. So the
changes themselves are looked at, whoever made them.
"""

from collections.abc import Iterable, Mapping
from functools import partial
from hashlib import sha1, sha256
from typing import NamedTuple

from contracts.gate import Bounds
from contracts.json import Json, digest
from contracts.tool import Denied
from policy.guard.guard import GUARD, is_protected, is_vouched, plain_path
from policy.plan.question import Question
from policy.types import Approval

WORK = "the collected work"
"""Stands in an approval where the node of an agent's call does."""

_OP = "collect"
_PLAIN_FILE = "100644"
_LONGEST_SHA1 = len(_PLAIN_FILE) + 1 + 40


class Change(NamedTuple):
    """One file that the work changes; `before` and `after` name its mode and its content."""

    path: str
    before: str
    after: str


def unvouched(changes: Iterable[Change], bounds: Bounds) -> tuple[Change, ...]:
    """Those to protected files that nobody vouches for."""
    return tuple(
        change
        for change in changes
        if is_protected(change.path, bounds) and not is_vouched(change.path, bounds)
    )


def as_approved(change: Change, approvals: Iterable[Approval]) -> bool:
    """Whether a person has let an agent write exactly this file with exactly this content."""
    for approval in approvals:
        content = approval.arguments.get("content")
        if approval.status != "used" or not isinstance(content, str):
            continue
        path = approval.arguments.get("path") or approval.arguments.get("file_path")
        same = plain_path(str(path)) == change.path
        if same and change.after == f"{_PLAIN_FILE} {_git_name(content, like=change.after)}":
            return True
    return False


def _git_name(content: str, *, like: str) -> str:
    """What git calls a file of this content, by the kind of hash that `like` is of."""
    data = content.encode("utf-8", "surrogatepass")
    kind = sha256 if len(like) > _LONGEST_SHA1 else partial(sha1, usedforsecurity=False)
    return kind(b"blob %d\0" % len(data) + data).hexdigest()


def question_about(change: Change, bounds: Bounds, *, run_id: str, diff: str) -> Question:
    """May exactly this content be there, in the place of exactly that? `diff` is to look at."""
    taint = frozenset(bounds.taint)
    path = change.path.encode("utf-8", "backslashreplace").decode()
    exact: Mapping[str, Json] = {"path": path, "before": change.before, "after": change.after}
    denied = Denied(
        reason=f"{', '.join(sorted(taint))} would decide what {path} holds",
        rule="C4",
        argument="/path",
        tags=taint,
        provenance=(*sorted(taint), "what the run saw", WORK),
    )
    return Question(
        action=digest({"run": run_id, "op": _OP, "policy": GUARD, **exact}),
        run_id=run_id,
        step=0,
        op=_OP,
        arguments={"path": path, "diff": diff},
        denied=denied,
        node=WORK,
        agent="git",
    )
