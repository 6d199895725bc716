"""Approvals that a run waits for or was refused: for tool calls and for changed files."""

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
from flows.execution.work_check import check_changes, refused_changes
from flows.runs.request import ResolvedRequest
from policy.types import Approval
from sandbox.repos import BaseCommit

if TYPE_CHECKING:
    from policy.plan.approvals import Approvals


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
        self._asked: Sequence[Approval] = ()

    @property
    def is_waiting(self) -> bool:
        """True while a person has to decide."""
        return bool(pending_approvals(self._asked))

    def notices(self, *, suspends: bool) -> tuple[str, ...]:
        """Lines for the report. `suspends`: the run resumes by itself after the decision."""
        return approval_notices(self._asked, self._run_id, suspends=suspends)

    def decisions_text(self) -> str:
        """Return the decisions of a person, for the prompts of a resumed run; empty without any."""
        with self._approvals() as approvals:
            return decisions_text(approvals.list(run_id=self._run_id))

    def load(self, *, only_ends: bool) -> None:
        """Load the approvals after the last node, and request approval for the work where needed.

        `only_ends`: the run was resumed only to end; approvals that expired undecided are refused.
        """
        if not self._request.agentic_nodes and not self._work_needs_approval():
            return
        with self._approvals() as approvals:
            if only_ends:
                self.refused = expired_line(approvals.expired_undecided(self._run_id))
            self._asked = approvals.list(run_id=self._run_id)
            looking = self.refused is None
            while looking:
                waits = self._work_waits(approvals)
                self._asked = approvals.list(run_id=self._run_id)
                looking = waits and not self.is_waiting  # a person has decided since: check again

    def _work_needs_approval(self) -> bool:
        """Return True if the request pushes work of deterministic nodes that changes protected
        files."""
        work, bounds = self._delivery.work, self._bounds
        if not self._request.push or work is None or bounds is None:
            return False
        return refused_changes(work, self._base, bounds) is not None

    def _work_waits(self, approvals: "Approvals") -> bool:
        work, bounds = self._delivery.work, self._bounds
        if work is None or bounds is None:
            return False
        checked = check_changes(work, self._base, bounds, run_id=self._run_id, approvals=approvals)
        self.refused = checked.refused
        return checked.waits
