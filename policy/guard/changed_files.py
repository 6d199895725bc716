"""Checks the work collected from a sandbox for changes of protected files without permission.

A shell line, a test or a build can change a file in ways that no guard of tool calls sees.
Therefore the changes themselves are checked, no matter which program made them.

What is compared is where the bytes end up: also through links of the base and of the work. The
content of a submodule is not in the work, so every other commit of a submodule is a question.
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
    is_protected,
    mentions,
    workspace_path,
)
from policy.guard.links import SymbolicLinks
from policy.guard.protected import is_permitted_path
from policy.types import Approval, ApprovalRequest

COLLECTED_WORK = "the collected work"
"""Stands in an approval for the name of the node."""

_MAX_EXPLAINED = 10
"""Files whose protecting link is named in one message."""

_OP = "collect"
_REGULAR_FILE = "100644"
_SUBMODULE = "160000"
_MAX_SHA1_CHARS = len(_REGULAR_FILE) + 1 + 40


class ChangedFile(NamedTuple):
    """One changed file; `before` and `after` are its git mode and object id."""

    path: str
    before: str
    after: str

    @property
    def is_submodule(self) -> bool:
        """True if the work adds, moves or removes the commit of a submodule here."""
        return _SUBMODULE in (self.before[:6], self.after[:6])


class ForbiddenChange(NamedTuple):
    """A change of a protected file without permission.

    `protected_name` is the name that makes the file protected: its path, or a name by which a
    link leads to it. None means that there are too many links to tell.
    """

    change: ChangedFile
    protected_name: str | None


def forbidden_changes(
    changes: Iterable[ChangedFile], bounds: GuardBounds, links: Sequence[SymbolicLinks]
) -> tuple[ForbiddenChange, ...]:
    """Return the changes that neither `--allow-change` nor the blueprint permits.

    `links` are those of the base, and those of the work where it has others.
    """
    found = (_forbidden_change(change, bounds, links) for change in changes)
    return tuple(one for one in found if one is not None)


def _forbidden_change(
    change: ChangedFile, bounds: GuardBounds, links: Sequence[SymbolicLinks]
) -> ForbiddenChange | None:
    """Return None if the path is permitted, or every protected name of the file is.

    So a link `x.lock -> .github/ci.yml` and the pattern `*.lock` do not permit changing ci.yml.
    """
    if is_permitted_path(change.path, bounds.changes):
        return None
    if change.is_submodule:
        return ForbiddenChange(change, change.path)
    try:
        for name in (name for one in links for name in one.names_of(change.path)):
            if is_protected(name, bounds) and not is_permitted_path(name, bounds.changes):
                return ForbiddenChange(change, name)
    except TooManyLinks:
        return ForbiddenChange(change, None)
    return None


def forbidden_message(found: Sequence[ForbiddenChange]) -> str:
    """Return a message with the files, why each is protected, and the options that permit them."""
    reasons = [
        f"{one.change.path!r} is also {one.protected_name!r} through a link"
        for one in found[:_MAX_EXPLAINED]
        if one.protected_name not in (None, one.change.path)
    ]
    reasons += [
        f"{one.change.path!r} is a submodule, whose content is not in the work"
        for one in found[:_MAX_EXPLAINED]
        if one.change.is_submodule
    ]
    if any(one.protected_name is None for one in found):
        reasons.append("there are too many symbolic links, so each file counts as protected")
    return f"the work changes {describe_protected([one.change.path for one in found], reasons)}"


def was_approved(found: ForbiddenChange, approvals: Iterable[Approval]) -> bool:
    """Return True if a person approved an agent's call that writes exactly this content."""
    change = found.change
    for approval in approvals:
        content = approval.arguments.get("content")
        if approval.status != "used" or not isinstance(content, str):
            continue
        path = approval.arguments.get("path") or approval.arguments.get("file_path")
        same_file = workspace_path(str(path)) in (change.path, found.protected_name)
        if same_file and change.after == f"{_REGULAR_FILE} {_blob_id(content, like=change.after)}":
            return True
    return False


def _blob_id(content: str, *, like: str) -> str:
    """Return git's object id of this content, with the hash function that `like` was made with."""
    data = content.encode("utf-8", "surrogatepass")
    # A repository uses one hash function for all its objects, SHA-1 or SHA-256.
    hash_ = sha256 if len(like) > _MAX_SHA1_CHARS else partial(sha1, usedforsecurity=False)
    return hash_(b"blob %d\0" % len(data) + data).hexdigest()


def change_request(
    found: ForbiddenChange, bounds: GuardBounds, *, run_id: str, diff: str
) -> ApprovalRequest:
    """Return a request to approve exactly this change; `diff` is shown to the person."""
    taint, change = frozenset(bounds.taint), found.change
    # git allows file names that are not UTF-8; JSON and the database do not.
    path = change.path.encode("utf-8", "backslashreplace").decode()
    exact: Mapping[str, Json] = {"path": path, "before": change.before, "after": change.after}
    denied = Denied(
        reason=forbidden_message([found]),
        rule="C4",
        argument="/path",
        tags=taint,
        provenance=(
            *sorted(taint),
            "what the run saw",
            COLLECTED_WORK,
            *mentions(bounds, [change.path]),
        ),
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
