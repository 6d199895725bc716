"""Checks the work collected from a sandbox for changes of protected files without permission.

A shell line, a test or a build can change a file in ways that no guard of tool calls sees.
Therefore the changes themselves are checked, no matter which program made them.

A file may have other names by symbolic links: with a link `.husky -> tools/husky` the file
`tools/husky/pre-commit` is also read as `.husky/pre-commit`. Links may be hostile, so the work
spent on them is bounded.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from hashlib import sha1, sha256
from posixpath import dirname
from typing import NamedTuple

from contracts.json import Json, json_digest
from contracts.model_access import GuardBounds
from contracts.tool import Denied
from policy.errors import TooManyLinks
from policy.guard.guard import (
    GUARD_VERSION,
    MAX_PATH_CHARS,
    describe_protected,
    is_permitted,
    is_protected,
    workspace_path,
)
from policy.types import Approval, ApprovalRequest

COLLECTED_WORK = "the collected work"
"""Stands in an approval for the name of the node."""

_MAX_EXPLAINED = 10
"""Files whose protecting link is named in one message."""

_OP = "collect"
_REGULAR_FILE = "100644"
_MAX_SHA1_CHARS = len(_REGULAR_FILE) + 1 + 40


MAX_HOPS = 40
"""Links that Linux follows to open one path."""

BUDGET = 100_000_000
"""Work allowed for the links of one tree, in characters of the paths looked at."""

_PATH_COST = 100
"""Fixed cost of looking at one path, besides its characters."""


class ChangedFile(NamedTuple):
    """One changed file; `before` and `after` are its git mode and object id."""

    path: str
    before: str
    after: str


class ForbiddenChange(NamedTuple):
    """A change of a protected file without permission.

    `protected_name` is the name that makes the file protected: its path, or a name by which a
    link leads to it. None means that there are too many links to tell.
    """

    change: ChangedFile
    protected_name: str | None


class SymbolicLinks:
    """The links of one tree: `targets` maps the path of each link to its target.

    Following links spends `budget`; once it is used up, `names_of` raises.
    """

    def __init__(self, targets: Mapping[str, str], *, budget: int = BUDGET) -> None:
        self._targets = targets
        self._budget = budget
        self._leading_to: defaultdict[str, list[str]] = defaultdict(list)
        self._leading_over: defaultdict[str, list[str]] = defaultdict(list)
        self._loops: set[str] = set()
        try:
            for link in targets:
                self._follow(link)
        except TooManyLinks:
            self._budget = 0

    def names_of(self, path: str) -> Iterator[str]:
        """Yield the path, and every other name that links give to the file there.

        A link whose way leads over the path is one of the names, because a change of the path
        changes its destination. Names that follow a loop more than once are omitted.

        Raises:
            TooManyLinks: following all links would cost more than the budget.
        """
        yield path
        if not self._targets:
            return
        seen = {path}
        queue: deque[tuple[str, frozenset[str]]] = deque([(path, frozenset())])
        while queue:
            name, used = queue.popleft()
            for link, other in self._other_names(name):
                # A link to a folder above itself would give longer and longer names.
                again = link in used or (link in self._loops and not self._loops.isdisjoint(used))
                if not again and other not in seen and len(other) <= MAX_PATH_CHARS:
                    seen.add(other)
                    queue.append((other, used | {link}))
                    yield other

    def _other_names(self, name: str) -> Iterator[tuple[str, str]]:
        parts = name.split("/")
        self._spend(len(parts) * len(name))
        for count in range(len(parts) + 1):
            for link in self._leading_to.get("/".join(parts[:count]).casefold(), ()):
                self._spend(len(link))
                yield link, "/".join((link, *parts[count:]))
        for link in self._leading_over.get(name.casefold(), ()):
            self._spend(len(link))
            yield link, link

    def _follow(self, link: str) -> None:
        """Store the destination of a link and the paths on the way, if it stays in the tree."""
        folder = dirname(link).split("/") if "/" in link else []
        remaining = [*reversed(self._targets[link].split("/"))]
        hops = 1
        if self._targets[link].startswith("/"):
            return
        while remaining:
            part = remaining.pop()
            if part == ".." and not folder:
                return
            if part in ("", ".", ".."):
                folder = folder[:-1] if part == ".." else folder
                continue
            folder.append(part)
            path = "/".join(folder)
            self._spend(len(path))
            # Case is ignored: on macOS and Windows `Tools` and `tools` are one folder.
            self._leading_over[path.casefold()].append(link)
            target = self._targets.get(path)
            if target is None:
                continue
            hops += 1
            # An absolute target does not lead into the clones of other people.
            if hops > MAX_HOPS or target.startswith("/"):
                return
            self._spend(len(target))
            folder.pop()
            remaining += reversed(target.split("/"))
        destination = "/".join(folder)
        self._leading_to[destination.casefold()].append(link)
        if not destination or f"{link}/".startswith(f"{destination}/"):
            self._loops.add(link)

    def _spend(self, cost: int) -> None:
        self._budget -= cost + _PATH_COST
        if self._budget < 0:
            raise TooManyLinks("the repository has too many symbolic links to follow")


def forbidden_changes(
    changes: Iterable[ChangedFile], bounds: GuardBounds, links: SymbolicLinks
) -> tuple[ForbiddenChange, ...]:
    """Return the changes that neither `--allow-change` nor the blueprint permits."""
    found = (_forbidden_change(change, bounds, links) for change in changes)
    return tuple(one for one in found if one is not None)


def _forbidden_change(
    change: ChangedFile, bounds: GuardBounds, links: SymbolicLinks
) -> ForbiddenChange | None:
    """Return None if the path is permitted, or every protected name of the file is.

    So a link `x.lock -> .github/ci.yml` and the pattern `*.lock` do not permit changing ci.yml.
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
    """Return a message with the files, why each is protected, and the options that permit them."""
    reasons = [
        f"{one.change.path!r} is also {one.protected_name!r} through a link"
        for one in found[:_MAX_EXPLAINED]
        if one.protected_name not in (None, one.change.path)
    ]
    if any(one.protected_name is None for one in found):
        reasons.append("there are too many symbolic links, so each file counts as protected")
    files = describe_protected([one.change.path for one in found])
    return f"the work changes {files}" + (f" ({'; '.join(reasons)})" if reasons else "")


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
