"""Hears at once of a run that was cancelled while it waited for a person: Prefect calls no hook.

What is missed here, `reap-sandboxes` finds.
"""

import asyncio
import sys

from prefect.events import Event
from prefect.events.clients import get_events_subscriber
from prefect.events.filters import EventFilter, EventNameFilter
from prefect.logging import get_logger

PAUSE_S = 5.0
"""Before the server is asked again for its events, when it told no more."""


async def follow_cancelled() -> None:
    """Withdraw each such run of this home, in a process of its own, until cancelled itself."""
    while True:
        following = asyncio.create_task(_follow())
        await asyncio.wait([following])  # of what ends it, Prefect names no class: begin again
        get_logger("harness").warning("the server tells no events: %r", following.exception())
        await asyncio.sleep(PAUSE_S)


async def _follow() -> None:
    chosen = EventFilter(event=EventNameFilter(name=["prefect.flow-run.Cancelled"]))
    async with get_events_subscriber(filter=chosen) as events:
        async for event in events:
            if _waited(event):
                run_id = event.resource.id[-8:]
                argv = (sys.executable, "-P", "-m", "flows.host.withdraw_process", run_id)
                await (await asyncio.create_subprocess_exec(*argv)).wait()


def _waited(event: Event) -> bool:
    match event.payload:
        case {"intended": {"from": "PAUSED"}}:
            return True
    return False
