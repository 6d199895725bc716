"""Open the event log and the approvals of a home: both are in the database of memory."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from flows.config.memory import load_memory_settings
from flows.config.policy import PolicySettings, load_policy_settings
from flows.runs.home import home_owner
from policy.log.events import Draft

if TYPE_CHECKING:
    from flows.views.spec import ViewSpec
    from policy.log.event_log import EventLog
    from policy.plan.approvals import Approvals

AppendEvents = Callable[[Sequence[Draft]], object]
"""Appends events to the log, all or none.

Raises:
    LogUnavailable: the log cannot be written: an outage, which stops the run.
    LogDamaged: events are missing that the log had before.
"""


def open_log(home: Path, replica: str) -> "EventLog":
    """Return the log, open until the process ends; `replica` is this machine's name in it.

    Raises:
        SettingsInvalid, StoreUnavailable, StoreCorrupt, StoreTooNew.
    """
    # These import SQLAlchemy, which takes 0.3 s.
    from memory.database import open_database
    from policy.log.event_log import EventLog
    from policy.log.head import HeadFile

    engine = open_database(load_memory_settings().database(home))
    return EventLog(engine=engine, replica=replica, head_file=HeadFile(home / "events.head"))


@contextmanager
def event_log(home: Path, replica: str) -> Iterator["EventLog"]:
    """Give the log until the block ends.

    Raises:
        SettingsInvalid, StoreUnavailable, StoreCorrupt, StoreTooNew.
    """
    log = open_log(home, replica)
    try:
        yield log
    finally:
        log.engine.dispose()


@contextmanager
def append_when_needed(home: Path, replica: str) -> Iterator[AppendEvents]:
    """Give a function that appends; its first call opens the log and raises as `open_log` does."""
    with ExitStack() as stack:
        # A run appends first when its sandbox is ready: memory has imported SQLAlchemy by then.
        opened = cache(lambda: stack.enter_context(event_log(home, replica)))
        yield lambda drafts: opened().append(drafts)


def run_page(home: Path, replica: str, run_id: str) -> "ViewSpec":
    """Return the page of a run, made from its events.

    Raises:
        SettingsInvalid, StoreUnavailable, LogUnavailable, LogDamaged.
    """
    from flows.views.run import run_view

    with event_log(home, replica) as log:
        return run_view(log.history(run_id), run_id)


@contextmanager
def open_approvals(home: Path) -> "Iterator[Approvals]":
    """Give the approvals of this home until the block ends.

    Raises:
        SettingsInvalid, StoreUnavailable, LogUnavailable.
    """
    with event_log(home, home_owner(home)) as log:
        yield make_approvals(log, load_policy_settings())


def cached_approvals(home: Path) -> "Callable[[], Approvals]":
    """Return a function that opens the approvals of this home once and keeps them open.

    Raises (when called):
        SettingsInvalid, StoreUnavailable.
    """
    return cache(lambda: make_approvals(open_log(home, home_owner(home)), load_policy_settings()))


def make_approvals(log: "EventLog", policy: PolicySettings) -> "Approvals":
    """Return the approvals in the database of this log; their decisions are appended to the log."""
    from policy.plan.approvals import Approvals

    return Approvals(log=log, ttl_s=policy.approval_ttl_s)
