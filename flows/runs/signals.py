"""Ending a run early: cancelling in the Prefect UI sends SIGTERM; a run that ends ignores it."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import copy_context
from typing import TYPE_CHECKING
from uuid import UUID

from httpx import HTTPError

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient

LOOK_S = 1.0
"""Seconds between two requests that ask the Prefect server whether the flow run was cancelled."""

LOOK_UNDER_WORKER_S = 10.0
"""Like `LOOK_S`, for a run of a worker, which also learns of the cancellation and ends the run."""


@contextmanager
def exit_when_cancelled(flow_run_id: str, *, every_s: float = LOOK_S) -> Iterator[None]:
    """Send SIGTERM to this process if its flow run is cancelled during the block.

    A run of the command line has no worker that would do so.
    """
    over = threading.Event()
    watcher = threading.Thread(
        target=copy_context().run,
        args=(_watch, flow_run_id, over, every_s),
        name="cancel",
        daemon=True,
    )
    watcher.start()
    try:
        yield
    finally:
        over.set()


@contextmanager
def ignore_sigterm() -> Iterator[None]:
    """Ignore SIGTERM during the block, in which the process is ending already."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _watch(flow_run_id: str, over: threading.Event, every_s: float) -> None:
    from prefect.client.orchestration import get_client

    if over.wait(every_s):
        return
    with get_client(sync_client=True) as client:
        while not _is_unwanted(client, flow_run_id):
            if over.wait(every_s):
                return
    os.kill(os.getpid(), signal.SIGTERM)


def _is_unwanted(client: "SyncPrefectClient", flow_run_id: str) -> bool:
    from prefect.exceptions import ObjectNotFound

    with suppress(HTTPError, ObjectNotFound):  # the run itself reports an outage
        state = client.read_flow_run(UUID(flow_run_id)).state
        return state is not None and (state.is_cancelling() or state.is_cancelled())
    return False
