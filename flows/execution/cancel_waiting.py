"""Ends a run that was cancelled while it waited for a person, when it has no process to do so.

`harness runs cancel` does so at once. Prefect calls no hook when a suspended flow run is cancelled
in its UI, so the flow `reap-sandboxes` looks for such runs.
"""

from contextlib import suppress
from typing import TYPE_CHECKING
from uuid import UUID

from prefect import get_client
from prefect.exceptions import ObjectNotFound
from prefect.states import Cancelled

from contracts.errors import ApprovalDecided, RunNotFound
from flows.execution.dependencies import RunDependencies
from flows.execution.reconcile import reconcile_run
from flows.runs.runs import RunEntry, read_entry

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient

    from contracts.run import RunReport
    from policy.plan.approvals import Approvals

WHY = "it was cancelled while it waited for a person"


def cancel_waiting_run(dependencies: RunDependencies, run_id: str) -> "RunReport | None":
    """Report a waiting run as cancelled; None if the run does not wait.

    Denies its pending approvals and removes its checkpoint and snapshots.
    """
    if not _waits(dependencies, run_id):
        return None
    with dependencies.open_approvals() as approvals:
        deny_pending_approvals(approvals, run_id)
    return reconcile_run(dependencies, run_id, KeyboardInterrupt(WHY), of="waiting")


def deny_pending_approvals(approvals: "Approvals", run_id: str) -> None:
    """Deny the approvals of a cancelled run, also those decided after the cancellation."""
    for one in approvals.list(run_id=run_id, pending=True):
        with suppress(
            ApprovalDecided
        ):  # a person has decided meanwhile; the run is cancelled all the same
            approvals.decide(one.id, "denied", by="harness", reason=WHY)


def cancel_waiting_run_and_flow_run(dependencies: RunDependencies, entry: RunEntry) -> None:
    """Like `cancel_waiting_run`; also cancel its suspended flow run."""
    if entry.suspends and entry.flow_run_id:
        # ObjectNotFound: the server no longer has this flow run, so nothing will resume it.
        with get_client(sync_client=True) as client, suppress(ObjectNotFound):
            client.set_flow_run_state(UUID(entry.flow_run_id), Cancelled(message=WHY), force=True)
    cancel_waiting_run(dependencies, entry.run_id)


def cancel_waiting_runs(dependencies: RunDependencies) -> int:
    """End all waiting runs of this home whose flow runs were cancelled; return how many."""
    with dependencies.open_approvals() as approvals:
        # Not only the pending ones: a person may have decided since the flow run was cancelled.
        run_ids = {one.run_id for one in approvals.list()}
    waiting = filter(None, (_waits(dependencies, run_id) for run_id in sorted(run_ids)))
    with get_client(sync_client=True) as client:
        return sum(
            cancel_waiting_run(dependencies, entry.run_id) is not None
            for entry in waiting
            if entry.suspends
            and entry.flow_run_id
            and is_flow_run_cancelled(client, entry.flow_run_id)
        )


def _waits(dependencies: RunDependencies, run_id: str) -> RunEntry | None:
    with suppress(RunNotFound):  # approvals of plans have no run folder
        entry = read_entry(dependencies.runs, run_id)
        return entry if entry.state == "waiting" else None
    return None


def is_flow_run_cancelled(client: "SyncPrefectClient", flow_run: str) -> bool:
    """Return True if the Prefect server shows this flow run as cancelled."""
    with suppress(ObjectNotFound):
        state = client.read_flow_run(UUID(flow_run)).state
        return state is not None and state.is_cancelled()
    return False
