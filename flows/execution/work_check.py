"""Approvals that a run waits for or was refused: for tool calls, and for changes of protected files
in its work, which are checked before the work is published."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from contracts.model_access import GuardBounds
from flows.audit.approval_text import (
    approval_notices,
    decisions_text,
    expired_line,
    pending_approvals,
)
from flows.execution.delivery import Delivery
from flows.runs.request import ResolvedRequest
from policy.guard.changed_files import (
    ChangedFile,
    ForbiddenChange,
    change_request,
    forbidden_changes,
    forbidden_message,
    was_approved,
)
from policy.guard.links import SymbolicLinks
from policy.types import Approval
from sandbox.diffs import file_changes, file_diff, symlinks
from sandbox.repos import BaseCommit
from sandbox.workspace import WorkCommit

if TYPE_CHECKING:
    from policy.plan.approvals import Approvals

_SHOWN = 500_000
"""Bytes of a diff that are stored for the person who decides."""


class PendingApprovals:
    """Approvals of one run. Empty until `load` is called."""

    def __init__(
        self,
        request: ResolvedRequest,
        run_id: str,
        base: BaseCommit,
        delivery: Delivery,
        bounds: GuardBounds | None,
        approvals: "Callable[[], AbstractContextManager[Approvals]]",
    ) -> None:
        self.refused: str | None = None
        """Reason why the work may not be published; None if it may."""
        self._request = request
        self._run_id = run_id
        self._base = base
        self._delivery = delivery
        self._bounds = bounds
        self._approvals = approvals
        self._requested: Sequence[Approval] = ()

    @property
    def is_waiting(self) -> bool:
        """True while a person has to decide."""
        return bool(pending_approvals(self._requested))

    def notices(self, *, suspends: bool) -> tuple[str, ...]:
        """Lines for the report. `suspends`: the run resumes by itself after the decision."""
        return approval_notices(self._requested, self._run_id, suspends=suspends)

    def decisions_text(self) -> str:
        """Return the decisions of a person, for the prompts of a resumed run; empty without any."""
        with self._approvals() as approvals:
            return decisions_text(approvals.list(run_id=self._run_id))

    def load(self, *, only_ends: bool) -> None:
        """Load the approvals after the last node, and request approval for the work where needed.

        `only_ends`: the run was resumed only to end; approvals that expired undecided are refused.
        """
        # Deterministic nodes are the user's own program: only what they push is checked.
        if not self._request.agentic_nodes and not self._request.push:
            return
        with self._approvals() as approvals:
            if only_ends:
                self.refused = expired_line(approvals.expired_undecided(self._run_id))
            self._requested = approvals.list(run_id=self._run_id)
            while self.refused is None:
                is_undecided = self._check_work(approvals)
                self._requested = approvals.list(run_id=self._run_id)
                if not is_undecided or self.is_waiting:
                    break  # otherwise a person has decided since the check: check again

    def _check_work(self, approvals: "Approvals") -> bool:
        """Set `refused`, or request approval for each change of a protected file that is not
        permitted; return True if a decision is pending.

        How a file was changed does not matter (a tool call, a shell command, a test): only the work
        counts.
        """
        work, base, bounds = self._delivery.work, self._base, self._bounds
        if work is None or bounds is None:
            return False
        known = approvals.list(run_id=self._run_id)
        found = [one for one in _unpermitted(work, base, bounds) if not was_approved(one, known)]
        if not found:
            return False
        if not bounds.ask:
            self.refused = forbidden_message(found)
            return False
        questions = [
            change_request(one, bounds, run_id=self._run_id, diff=_diff(base, work, one.change))
            for one in found
        ]
        answers = [approvals.ask(question) for question in questions]
        denied = [
            one for one, answer in zip(found, answers, strict=True) if answer.status == "denied"
        ]
        if denied:
            self.refused = f"{_summary(denied)}, which a person refused"
            return False
        if not all(answer.status == "approved" for answer in answers):
            return True
        used = [approvals.consume(question) for question in questions]
        if not all(used):
            self.refused = f"{_summary(found)}: the approval is not there any more"
        return False


def refused_changes(work: WorkCommit, base: BaseCommit, bounds: GuardBounds) -> str | None:
    """Return why the work may not be published when no person is asked, or None."""
    found = _unpermitted(work, base, bounds)
    return forbidden_message(found) if found else None


def _unpermitted(
    work: WorkCommit, base: BaseCommit, bounds: GuardBounds
) -> tuple[ForbiddenChange, ...]:
    """Return the changes of protected files that no `--allow-change` permits.

    Paths are also compared through symbolic links, of the base and of the work. A link that the
    work adds or changes counts as a change at the link's path, too.
    """
    changed = (ChangedFile(*change) for change in file_changes(base, work.commit))
    before, after = symlinks(base, base.commit), symlinks(base, work.commit)
    links = [SymbolicLinks(one) for one in ((before,) if before == after else (before, after))]
    return forbidden_changes(changed, bounds, links)


def _diff(base: BaseCommit, work: WorkCommit, change: ChangedFile) -> str:
    return file_diff(base, work.commit, change.path, limit=_SHOWN) or "[git shows no line of it]"


def _summary(found: Sequence[ForbiddenChange]) -> str:
    return f"the work changes {', '.join(repr(one.change.path) for one in found)}"
