"""Heartbeat of a flow run, by which the Prefect server notices that its process is gone.

Prefect's own heartbeat sleeps in whole seconds, and the flow run waits for it: half a second more
per run. `use_server` switches it off, and this one replaces it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import copy_context
from threading import Event, Thread

from prefect.context import GLOBAL_SETTINGS_CONTEXT
from prefect.events import emit_event
from prefect.runtime import flow_run
from prefect.settings import get_current_settings


@contextmanager
def heartbeat() -> Iterator[None]:
    """Send heartbeats as often as Prefect is configured to, until the block ends."""
    every_s = GLOBAL_SETTINGS_CONTEXT.settings.flows.heartbeat_frequency
    if every_s is None or get_current_settings().flows.heartbeat_frequency is not None:
        yield
        return
    over = Event()
    # The context holds the flow run and the server for the thread.
    heart = Thread(
        target=copy_context().run, args=(_beat, over, every_s), name="heartbeat", daemon=True
    )
    heart.start()
    try:
        yield
    finally:
        over.set()
        heart.join()


def _beat(over: Event, every_s: float) -> None:
    lives = {
        "prefect.resource.id": f"prefect.flow-run.{flow_run.id}",
        "prefect.resource.name": str(flow_run.name),
    }
    emit_event("prefect.flow-run.heartbeat", lives)
    while not over.wait(every_s):
        emit_event("prefect.flow-run.heartbeat", lives)
