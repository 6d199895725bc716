"""Open the event log of a home: it is in the database of memory, its head in `events.head`."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from flows.audit.run_events import AppendEvents
from flows.config.memory import load_memory_settings
from policy.log.events import Draft
from policy.log.view import ViewSpec
from policy.log.views import run_view

if TYPE_CHECKING:
    from policy.log.event_log import EventLog


@contextmanager
def event_log(home: Path, replica: str) -> Iterator["EventLog"]:
    """Give the log until the block ends; `replica` is this machine's name in it.

    Raises:
        SettingsInvalid, StoreUnavailable, StoreCorrupt, StoreTooNew.
    """
    log = open_log(home, replica)
    try:
        yield log
    finally:
        log.engine.dispose()


@contextmanager
def append_in_background(home: Path, replica: str) -> Iterator[AppendEvents]:
    """Give a function that appends, while the log is opened in a thread (0.3 s).

    The first append raises the errors of `open_log`.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="event-log") as thread:
        opening = thread.submit(open_log, home, replica)

        def append(drafts: Sequence[Draft]) -> None:
            opening.result().append(drafts)

        try:
            yield append
        finally:
            if opening.exception() is None:
                opening.result().engine.dispose()


def run_page(home: Path, replica: str, run_id: str) -> ViewSpec:
    """Return the page of a run, made from its events.

    Raises:
        SettingsInvalid, StoreUnavailable, LogUnavailable, LogDamaged.
    """
    with event_log(home, replica) as log:
        return run_view(log.history(run_id), run_id)


def open_log(home: Path, replica: str) -> "EventLog":
    """Return the log, open until the process ends.

    Raises:
        SettingsInvalid, StoreUnavailable, StoreCorrupt, StoreTooNew.
    """
    # SQLAlchemy is imported here, while the run waits for its sandbox.
    from memory.database import open_database
    from policy.log.event_log import EventLog, HeadFile

    engine = open_database(load_memory_settings().database(home))
    return EventLog(engine=engine, replica=replica, head_file=HeadFile(home / "events.head"))
