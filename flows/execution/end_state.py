"""Sets the final state of a run's flow run, at once or after an outage of the Prefect server.

If the server is down when a run ends, a file in the run's folder records that. `harness up`, the
next `harness run` and the upkeep then set the state.
"""

import logging
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

from prefect import State, get_client
from prefect.client.schemas import filters
from prefect.client.schemas.actions import ArtifactCreate
from prefect.client.schemas.objects import StateType, TaskRun
from prefect.exceptions import ObjectNotFound, PrefectHTTPStatusError
from prefect.states import Cancelled, Completed, Crashed, Failed

from contracts.errors import RunNotResumable
from contracts.run import RunReport
from flows.runs.home import STATE_NOT_SET, write_in_home
from flows.runs.report import report_markdown
from flows.runs.run_record import run_lock
from flows.runs.runs import load_report, read_diff, try_read_record
from flows.services.prefect_server import prefect_client

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient

_log = logging.getLogger(__name__)


def end_state(report: RunReport) -> State[RunReport]:
    """Return the final Prefect state for a run with this report."""
    if report.status == "cancelled":
        return Cancelled(message=report.error, data=report)
    if report.status == "waiting":
        what = "the checks of its pull request" if report.waits_for_checks else "an approval"
        return Completed(name="Waiting", message=f"waits for {what}", data=report)
    if report.status == "success":
        where = f"work on {report.branch}" if report.branch else "nothing changed"
        return Completed(message=where, data=report)
    return Failed(message=report.error, data=report)


def record_unset_state(folder: Path, api: str) -> None:
    """Record in the run's folder that the server at `api` does not have the final state yet."""
    write_in_home(folder / STATE_NOT_SET, api, run_id=folder.name)


def set_recorded_states(runs: Path, api: str) -> int:
    """Set the final state of each recorded flow run; return how many were set.

    Raises:
        PrefectUnavailable: the server does not answer.
    """
    notes = sorted(runs.glob(f"*/{STATE_NOT_SET}"))
    if not notes:
        return 0
    with prefect_client(api) as client:
        return sum(_set_recorded(client, runs, note, api) for note in notes)


def _set_recorded(client: "SyncPrefectClient", runs: Path, note: Path, api: str) -> bool:
    own = note.parent
    try:
        with run_lock(runs, own.name):
            record, report = try_read_record(own), load_report(own)
            if record is None or record.flow_run_id is None or report is None:
                return False
            _set(client, UUID(record.flow_run_id), report, read_diff(runs, own.name))
            note.unlink()
            return True
    except RunNotResumable:  # another process has resumed the run
        return False
    except ObjectNotFound:
        if note.read_text() == api:  # flow runs of other servers stay recorded
            note.unlink()
        return False
    except PrefectHTTPStatusError as error:
        _log.warning("the state of run %s could not be set in Prefect: %s", own.name, error)
        return False


def _set(client: "SyncPrefectClient", flow_run: UUID, report: RunReport, diff: str) -> None:
    state = client.read_flow_run(flow_run).state
    if state is not None and state.is_final() and not state.is_crashed():
        return  # the server has the final state
    for task in _open_task_runs(client, flow_run):
        client.set_task_run_state(task.id, _task_state(task.name, report), force=True)
    client.create_artifact(
        ArtifactCreate(
            key=f"report-{report.run_id}",
            type="markdown",
            description=f"{report.blueprint}: {report.status}",
            data=report_markdown(report, diff),
            flow_run_id=flow_run,
        )
    )
    client.set_flow_run_state(flow_run, end_state(report), force=True)


def crash_open_tasks(flow_run_id: UUID, message: str | None) -> None:
    """Set the open task runs of this flow run to Crashed."""
    with get_client(sync_client=True) as client:
        for task in _open_task_runs(client, flow_run_id):
            client.set_task_run_state(task.id, Crashed(message=message), force=True)


def _open_task_runs(client: "SyncPrefectClient", flow_run: UUID) -> list[TaskRun]:
    is_open = filters.TaskRunFilterStateType(any_=[StateType.RUNNING, StateType.PENDING])
    return client.read_task_runs(
        flow_run_filter=filters.FlowRunFilter(id=filters.FlowRunFilterId(any_=[flow_run])),
        task_run_filter=filters.TaskRunFilter(state=filters.TaskRunFilterState(type=is_open)),
    )


def _task_state(name: str, report: RunReport) -> State[object]:
    """Return the final state of a task run that the server still shows as running."""
    with suppress(StopIteration):
        node = next(node for node in report.nodes if node.name == name)
        if node.status == "failure":
            return Failed(message=node.error)
    return Completed()
