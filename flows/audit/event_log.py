"""Opens the event log of this machine: in memory's database, its head in a file beside."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from flows.audit.run_events import AppendEvents
from flows.config.memory import load_memory_settings
from policy.log.events import Draft
from policy.log.view_spec import ViewSpec
from policy.log.views import run_view

if TYPE_CHECKING:
    from policy.log.event_log import EventLog


@contextmanager
def event_log(home: Path, replica: str) -> Iterator["EventLog"]:
    """The log; `replica` is this machine's name in it.

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
    """A way to append, at once; the log is opened behind it, which takes a third of a second.

    An outage is raised by the first append.
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
    """The page of one run, made of its events.

    Raises:
        SettingsInvalid, StoreUnavailable, LogUnavailable, LogDamaged.
    """
    with event_log(home, replica) as log:
        return run_view(log.history(run_id), run_id)


def open_log(home: Path, replica: str) -> "EventLog":
    """The log, for as long as the process lives.

    Raises:
        SettingsInvalid, StoreUnavailable, StoreCorrupt, StoreTooNew.
    """
    # SQLAlchemy is imported here, so that a run which waits for its sandbox does not wait for it.
    from memory.database import open_database
    from policy.log.event_log import EventLog
    from policy.log.head import HeadFile

    engine = open_database(load_memory_settings().database(home))
    return EventLog(engine=engine, replica=replica, head_file=HeadFile(home / "events.head"))
