"""The work that is collected from a sandbox: which protected files it changes without permission.

A shell line, a test or a build can write a file on a way that no guard of tool calls sees. So the
changes themselves are looked at, whoever made them.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from hashlib import sha1, sha256
from typing import NamedTuple

from contracts.gate import Bounds
from contracts.json import Json, digest
from contracts.tool import Denied
from policy.errors import LinksTooMany
from policy.guard.guard import GUARD, is_permitted, is_protected, plain_path, protected_files
from policy.guard.links import Links
from policy.plan.question import Question
from policy.types import Approval

WORK = "the collected work"
"""Stands in an approval where the node of an agent's call does."""

_MOST_LINKED = 10
"""Files of which one refusal tells by which link they are protected."""

_OP = "collect"
_PLAIN_FILE = "100644"
_LONGEST_SHA1 = len(_PLAIN_FILE) + 1 + 40


class Change(NamedTuple):
    """One file that the work changes; `before` and `after` name its mode and its content."""

    path: str
    before: str
    after: str


class Unpermitted(NamedTuple):
    """A change of a protected file that nothing permits.

    `name` is by which name the file is protected: its path, or one by which a link leads to it.
    None: nobody can tell, for the links are too many to follow.
    """

    change: Change
    name: str | None


def unpermitted(changes: Iterable[Change], bounds: Bounds, links: Links) -> tuple[Unpermitted, ...]:
    """The changes of protected files that neither `--allow-change` nor the blueprint permits."""
    found = (_unpermitted(change, bounds, links) for change in changes)
    return tuple(one for one in found if one is not None)


def _unpermitted(change: Change, bounds: Bounds, links: Links) -> Unpermitted | None:
    """None where the path is permitted, or every name of the file that is protected is.

    So a link `x.lock -> .github/ci.yml` and the pattern `*.lock` permit no change of that file.
    """
    if is_permitted(change.path, bounds):
        return None
    try:
        for name in links.names(change.path):
            if is_protected(name, bounds) and not is_permitted(name, bounds):
                return Unpermitted(change, name)
    except LinksTooMany:
        return Unpermitted(change, None)
    return None


def refusal(found: Sequence[Unpermitted]) -> str:
    """What the work changes without permission, why each counts, and which options permit it."""
    linked = [
        f"{one.change.path!r} is also {one.name!r} through a link"
        for one in found[:_MOST_LINKED]
        if one.name not in (None, one.change.path)
    ]
    if any(one.name is None for one in found):
        linked.append("the symbolic links are too many to follow, so each file counts as protected")
    named = protected_files([one.change.path for one in found])
    through = f" ({'; '.join(linked)})" if linked else ""
    return f"the work changes {named}{through}"


def as_approved(found: Unpermitted, approvals: Iterable[Approval]) -> bool:
    """Whether a person has let an agent write exactly this file with exactly this content."""
    change = found.change
    for approval in approvals:
        content = approval.arguments.get("content")
        if approval.status != "used" or not isinstance(content, str):
            continue
        path = approval.arguments.get("path") or approval.arguments.get("file_path")
        same = plain_path(str(path)) in (change.path, found.name)
        if same and change.after == f"{_PLAIN_FILE} {_git_name(content, like=change.after)}":
            return True
    return False


def _git_name(content: str, *, like: str) -> str:
    """What git calls a file of this content, by the kind of hash that `like` is of."""
    data = content.encode("utf-8", "surrogatepass")
    kind = sha256 if len(like) > _LONGEST_SHA1 else partial(sha1, usedforsecurity=False)
    return kind(b"blob %d\0" % len(data) + data).hexdigest()


def question_about(found: Unpermitted, bounds: Bounds, *, run_id: str, diff: str) -> Question:
    """May exactly this content be there, in the place of exactly that? `diff` is to look at."""
    taint, change = frozenset(bounds.taint), found.change
    path = change.path.encode("utf-8", "backslashreplace").decode()
    exact: Mapping[str, Json] = {"path": path, "before": change.before, "after": change.after}
    denied = Denied(
        reason=refusal([found]),
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
