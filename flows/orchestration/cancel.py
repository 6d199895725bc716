"""Cancels a run from another process: SIGTERM first, SIGKILL if it does not end.

A run that waits for a person has no process. `harness runs cancel` ends it at once; Prefect calls
no hook when a suspended flow run is cancelled in its UI, so the flow `reap-sandboxes` looks for
such runs.
"""

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from time import monotonic, sleep
from typing import TYPE_CHECKING
from uuid import UUID

from contracts.errors import ApprovalDecided, RunNotFound, RunNotRunning
from flows.config.settings import Settings
from flows.execution.dependencies import RunDependencies
from flows.execution.reconcile import reconcile_run
from flows.execution.wiring import build_dependencies
from flows.orchestration.start import connected_to
from flows.runs.home import REPORT
from flows.runs.run_record import read_record
from flows.runs.runs import RunEntry, find_run, read_entry
from flows.services.prefect_server import api_url
from sandbox.process_label import has_exited, is_local, pid_of

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient

    from contracts.run import RunReport
    from policy.plan.approvals import Approvals

PATIENCE_S = 30.0
"""Seconds after which a run that has not reported is killed, with its container."""

WHY = "it was cancelled while it waited"


def cancel_any_run(settings: Settings, run: str) -> RunEntry:
    """Cancel a run by its id or an unambiguous prefix; return its state afterwards.

    The pending approvals of a waiting run are denied. The run cannot be resumed, unless it waited
    for the checks of its pull request.

    Raises:
        RunNotFound: no such run, or several.
        RunNotRunning: it has ended, or it runs on another machine.
        PrefectUnavailable: it waits, and its flow run cannot be cancelled.
    """
    folder = settings.runs
    own = find_run(folder, run)
    entry = read_entry(folder, own.name)
    record = read_record(own)
    if entry.state == "waiting":
        with connected_to(api_url(settings)):
            if entry.suspends and entry.flow_run_id:
                cancel_flow_run(entry.flow_run_id)
            cancel_waiting_run(build_dependencies(settings), entry.run_id)
        return read_entry(folder, own.name)
    if record is None or entry.state not in ("queued", "running"):
        raise RunNotRunning(f"run {own.name} is not running: it is {entry.state}")
    if not is_local(record.process):
        raise RunNotRunning(
            f"run {own.name} is executed by a process of another machine: cancel it there, or its "
            f"flow run {record.flow_run_id} in the Prefect UI"
        )
    end_process(record.process, is_over=(own / REPORT).is_file)
    return read_entry(folder, own.name)


def end_process(process: str, *, is_over: Callable[[], bool] = lambda: False) -> None:
    """Terminate a process of this machine, or kill it if it does not end, and wait for its end."""
    _signal(process, signal.SIGTERM)
    give_up = monotonic() + PATIENCE_S
    while not has_exited(process) and not is_over():
        if monotonic() > give_up:
            _signal(process, signal.SIGKILL)
        sleep(0.05)


def _signal(process: str, sign: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid_of(process), sign)


def cancel_flow_run(flow_run_id: str) -> None:
    """Mark a flow run as cancelled; one that the server does not know is left out."""
    # Importing Prefect takes two seconds, which ending a process does not need.
    from prefect import get_client
    from prefect.exceptions import ObjectNotFound
    from prefect.states import Cancelled

    # ObjectNotFound: the server no longer has this flow run, so nothing will resume it.
    with get_client(sync_client=True) as client, suppress(ObjectNotFound):
        client.set_flow_run_state(UUID(flow_run_id), Cancelled(message=WHY), force=True)


def cancel_waiting_run(dependencies: RunDependencies, run_id: str) -> "RunReport | None":
    """Report a waiting run as cancelled; None if the run does not wait.

    Denies its pending approvals and, unless it has a pull request, removes its checkpoint and
    snapshots.
    """
    if not _waits(dependencies, run_id):
        return None
    with dependencies.open_approvals() as approvals:
        deny_pending_approvals(approvals, run_id)
    return reconcile_run(dependencies, run_id, KeyboardInterrupt(WHY), of="waiting")


def deny_pending_approvals(approvals: "Approvals", run_id: str) -> None:
    """Deny the approvals of a cancelled run, also those decided after the cancellation."""
    for one in approvals.list(run_id=run_id, pending=True):
        # A person may have decided meanwhile; the run is cancelled all the same.
        with suppress(ApprovalDecided):
            approvals.decide(one.id, "denied", by="harness", reason=WHY)


def cancel_waiting_runs(dependencies: RunDependencies) -> int:
    """End all waiting runs of this home whose flow runs were cancelled; return how many."""
    from prefect import get_client

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
    from prefect.exceptions import ObjectNotFound

    with suppress(ObjectNotFound):
        state = client.read_flow_run(UUID(flow_run)).state
        return state is not None and state.is_cancelled()
    return False
