"""Checks the collected work for changes of protected files before it is published."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from contracts.model_access import GuardBounds
from policy.guard.changed_files import (
    ChangedFile,
    ForbiddenChange,
    SymbolicLinks,
    change_request,
    forbidden_changes,
    forbidden_message,
    was_approved,
)
from sandbox.diffs import file_changes, file_diff, symlinks
from sandbox.repos import BaseCommit
from sandbox.workspace import WorkCommit

if TYPE_CHECKING:
    from policy.plan.approvals import Approvals

_SHOWN = 500_000
"""Bytes of a diff that are stored for the person who decides."""


class WorkCheck(NamedTuple):
    """Result of a check: `refused` with a reason, `waits` for a decision, or neither."""

    refused: str | None = None
    waits: bool = False


def check_changes(
    work: WorkCommit, base: BaseCommit, bounds: GuardBounds, *, run_id: str, approvals: "Approvals"
) -> WorkCheck:
    """Check the work, and request approval for each change of a protected file that is not
    permitted.

    How a file was changed does not matter (a tool call, a shell command, a test): only the work
    counts.
    """
    known = approvals.list(run_id=run_id)
    found = [one for one in _unpermitted(work, base, bounds) if not was_approved(one, known)]
    if not found:
        return WorkCheck()
    if not bounds.ask:
        return WorkCheck(forbidden_message(found))
    questions = [
        change_request(one, bounds, run_id=run_id, diff=_diff(base, work, one.change))
        for one in found
    ]
    answers = [approvals.ask(question) for question in questions]
    denied = [one for one, answer in zip(found, answers, strict=True) if answer.status == "denied"]
    if denied:
        return WorkCheck(f"{_named(denied)}, which a person refused")
    if not all(answer.status == "approved" for answer in answers):
        return WorkCheck(waits=True)
    used = [approvals.consume(question) for question in questions]
    return WorkCheck(None if all(used) else f"{_named(found)}: the approval is not there any more")


def refused_changes(work: WorkCommit, base: BaseCommit, bounds: GuardBounds) -> str | None:
    """Return why the work may not be published when no person is asked, or None."""
    found = _unpermitted(work, base, bounds)
    return forbidden_message(found) if found else None


def _unpermitted(
    work: WorkCommit, base: BaseCommit, bounds: GuardBounds
) -> tuple[ForbiddenChange, ...]:
    """Return the changes of protected files that no `--allow-change` permits.

    Paths are also compared through symbolic links of the base tree. A link that the work adds or
    changes counts as a change at the link's path.
    """
    changed = (ChangedFile(*change) for change in file_changes(base, work.commit))
    return forbidden_changes(changed, bounds, SymbolicLinks(symlinks(base)))


def _diff(base: BaseCommit, work: WorkCommit, change: ChangedFile) -> str:
    return file_diff(base, work.commit, change.path, limit=_SHOWN) or "[git shows no line of it]"


def _named(found: Sequence[ForbiddenChange]) -> str:
    return f"the work changes {', '.join(repr(one.change.path) for one in found)}"
