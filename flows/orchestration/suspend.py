"""Suspends a flow run while it waits for a person, with one typed form per pending approval.

The process ends. A worker resumes the run once everything is decided, in the form or elsewhere. A
decision is stored before it takes effect, so a retried run does not ask twice.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal
from uuid import UUID

from prefect import get_client
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterState,
    FlowRunFilterStateName,
)
from prefect.exceptions import FlowPauseTimeout, NotPausedError, ObjectNotFound, Pause
from prefect.flow_runs import resume_flow_run, suspend_flow_run
from prefect.input import RunInput
from prefect.runtime import flow_run
from pydantic import ConfigDict, Field, create_model

from contracts.errors import ApprovalDecided
from flows.audit.question_text import form_text
from policy.types import Approval, ApprovalStatus

if TYPE_CHECKING:
    from policy.plan.approvals import Approvals

_KEY = "approval-"
_SUSPENDED = "Suspended"
_APPROVE, _DENY = "approve", "deny"
_SLACK_S = 24 * 3600
"""Seconds that a form stays open after its approval has expired, so that the run reports the
expiry."""


def suspend_until_decided(approvals: "Approvals", run_id: str) -> None:
    """Suspend the flow run until no approval of this run is pending; return when none is.

    Raises:
        Pause: Prefect's signal to end the process; the flow starts again when it is resumed.
    """
    while waiting := _waiting(approvals, run_id):
        _ask(approvals, waiting[0], more=len(waiting) - 1)


def _ask(approvals: "Approvals", approval: Approval, *, more: int) -> None:
    left_s = int((approval.expires_at - datetime.now(UTC)).total_seconds()) + _SLACK_S
    key = f"{_KEY}{approval.run_id}-{approval.id}"
    try:
        answer = suspend_flow_run(wait_for_input=_form(approval, more), key=key, timeout=left_s)
    except Pause:
        resume_if_decided(
            str(flow_run.id), approvals, approval.run_id
        )  # decided just before the form opened
        raise
    status, reason = _read_form(answer.model_dump(), approval)
    with suppress(ApprovalDecided):
        approvals.decide(approval.id, status, by="the Prefect UI", reason=reason)


def resume_if_decided(
    suspended: str, approvals: "Approvals", run_id: str
) -> Literal["goes on", "waits", "over"]:
    """Resume a suspended flow run if its approval was decided elsewhere; return what it does now.

    A flow run that is still running reads the decision itself.
    """
    waiting = _waiting(approvals, run_id)
    with get_client(sync_client=True) as client, suppress(ObjectNotFound):
        state = client.read_flow_run(UUID(suspended)).state
        if state is None or state.is_final():
            return "over"
        if state.is_paused():
            key = state.state_details.pause_key or ""
            if any(key.endswith(f"-{one.id}") for one in waiting):
                return "waits"
            form = _filled_form(approvals.list(run_id=run_id))
            with suppress(NotPausedError, FlowPauseTimeout):  # another process resumed it
                resume_flow_run(UUID(suspended), run_input=form)
        return "waits" if waiting else "goes on"
    return "over"


def resume_all_decided(approvals: "Approvals") -> int:
    """Resume all suspended flow runs of this home that no longer wait; return how many."""
    suspended = FlowRunFilterStateName(any_=[_SUSPENDED])
    chosen = FlowRunFilter(state=FlowRunFilterState(name=suspended))
    with get_client(sync_client=True) as client:
        found = client.read_flow_runs(flow_run_filter=chosen)
    resumed = 0
    for run in found:
        key = run.state.state_details.pause_key if run.state else None
        run_id = (key or "").removeprefix(_KEY).partition("-")[0]
        if key and key.startswith(_KEY) and approvals.list(run_id=run_id):
            resumed += resume_if_decided(str(run.id), approvals, run_id) == "goes on"
    return resumed


def _waiting(approvals: "Approvals", run_id: str) -> list[Approval]:
    """Return the pending approvals, oldest first."""
    return approvals.list(run_id=run_id, pending=True)[::-1]


class DecisionForm(RunInput):
    """The form about one approval; `_read_form` reads its fields."""

    model_config = ConfigDict(extra="allow")  # fields of approvals decided elsewhere


def _form(approval: Approval, more: int) -> type[DecisionForm]:
    """The form for one approval, with `more` still to come. The default answer is deny."""
    fields = {name: (kind, field) for name, kind, field in _fields(approval)}
    made = create_model("Decide", __base__=DecisionForm, **fields)  # type: ignore[call-overload]  # fields known only at run time
    described: type[DecisionForm] = made.with_initial_data(description=form_text(approval, more))
    return described


def _filled_form(approvals: Iterable[Approval]) -> dict[str, object]:
    """The field values that a form for these decided approvals would hold."""
    found: dict[str, object] = {}
    for one in approvals:
        yes = one.status in ("approved", "used")
        if one.is_question:
            found |= {f"answer_{one.id}": one.reason or "no answer", f"refuse_{one.id}": not yes}
        else:
            answer = _APPROVE if yes else _DENY
            found |= {f"answer_{one.id}": answer, f"reason_{one.id}": one.reason}
    return found


def _read_form(fields: Mapping[str, object], approval: Approval) -> tuple[ApprovalStatus, str]:
    """The decision in a submitted form, and its reason or the answer to the question."""
    answer = str(fields[f"answer_{approval.id}"])
    if approval.is_question:
        return ("denied" if fields[f"refuse_{approval.id}"] else "approved"), answer
    reason = str(fields[f"reason_{approval.id}"])
    return ("approved" if answer == _APPROVE else "denied"), reason


def _fields(approval: Approval) -> Iterator[tuple[str, object, object]]:
    name = approval.id
    if approval.is_question:
        words = Field(title="Your answer", min_length=1, max_length=20_000, pattern=r"\S")
        yield f"answer_{name}", str, words
        yield f"refuse_{name}", bool, Field(default=False, title="I will not answer")
    else:
        yield (
            f"answer_{name}",
            Literal["deny", "approve"],
            Field(default=_DENY, title="This one action"),
        )
        yield f"reason_{name}", str, Field(default="", title="Why", max_length=2_000)
