"""Waits for the checks of a pull request. A deployment's flow run gives its process back meanwhile.

Its flow run becomes AwaitingRetry until the forge is asked again, or until a webhook says that a
check has finished (`flows/services/webhooks.py`). A run of the command line waits in its process.
"""

import time
from datetime import UTC, datetime, timedelta
from uuid import UUID

from prefect import get_client
from prefect.client.schemas.responses import SetStateStatus
from prefect.exceptions import Pause
from prefect.runtime import flow_run

from contracts.run import RunReport
from flows.execution.dependencies import RunDependencies
from flows.execution.pull_request_loop import next_look_s
from flows.runs.request import ResolvedRequest
from flows.runs.runs import is_known, read_entry, read_report
from flows.services.check_wait import waiting_until


def wait_for_checks(
    request: ResolvedRequest, dependencies: RunDependencies, run_id: str, *, suspends: bool
) -> RunReport | None:
    """Return None once the run can go on; its report, if it was cancelled while it waited.

    Raises:
        Pause: Prefect's signal to end the process; the flow starts again later.
    """
    if not is_known(dependencies.runs, run_id):
        return None
    began = read_entry(dependencies.runs, run_id).state
    while (wait_s := next_look_s(request, dependencies, run_id)) is not None:
        if suspends:
            _give_process_back(wait_s)
        time.sleep(wait_s)
        now = read_entry(dependencies.runs, run_id).state
        if now == "cancelled" != began:
            return read_report(dependencies.runs, run_id)
    return None


def _give_process_back(wait_s: float) -> None:
    """End this process, and let a worker start the flow run again after this time.

    Return if the server refuses: the flow run is being cancelled.
    """
    later = waiting_until(datetime.now(UTC) + timedelta(seconds=wait_s))
    with get_client(sync_client=True) as client:
        answer = client.set_flow_run_state(UUID(str(flow_run.id)), later)
    if answer.status == SetStateStatus.ACCEPT:
        raise Pause(state=later)
