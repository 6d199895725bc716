"""States of a flow run whose pull request decides when it goes on, without a process meanwhile."""

from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from uuid import UUID

from flows.services.prefect_server import prefect_client

if TYPE_CHECKING:
    from prefect import State

WAITS = "waits for the checks of its pull request"
COMMENTED = "a comment on its pull request asks for something"


def waiting_until(moment: datetime) -> "State[object]":
    """Return the state in which no process runs, and from which a worker takes it at a moment."""
    from prefect.states import AwaitingRetry

    return AwaitingRetry(scheduled_time=moment, message=WAITS)


def end_wait(api: str, flow_run_id: str) -> bool:
    """Let a flow run that waits for checks go on now; return whether it waited.

    Raises:
        PrefectUnavailable: the server does not answer.
    """
    from prefect.exceptions import ObjectNotFound

    with prefect_client(api) as client, suppress(ObjectNotFound):
        state = client.read_flow_run(UUID(flow_run_id)).state
        if state is not None and state.is_scheduled() and state.message == WAITS:
            now = waiting_until(datetime.now(UTC))
            client.set_flow_run_state(UUID(flow_run_id), now, force=True)
            return True
    return False


def go_on_after_end(api: str, flow_run_id: str) -> bool:
    """Let a worker continue a flow run that has ended; return whether it had.

    Raises:
        PrefectUnavailable: the server does not answer.
    """
    from prefect.exceptions import ObjectNotFound
    from prefect.states import AwaitingRetry

    with prefect_client(api) as client, suppress(ObjectNotFound):
        known = client.read_flow_run(UUID(flow_run_id))
        if known.deployment_id is not None and known.state is not None and known.state.is_final():
            again: State[object] = AwaitingRetry(
                scheduled_time=datetime.now(UTC), message=COMMENTED
            )
            client.set_flow_run_state(UUID(flow_run_id), again, force=True)
            return True
    return False
