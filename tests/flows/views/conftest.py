"""Event logs on SQLite, with a clock that the test sets."""

import pytest

from policy.log.event_log import EventLog
from tests.support.policy import OpenLog, clock, open_log

__all__ = ("clock", "open_log")


@pytest.fixture
def log(open_log: OpenLog) -> EventLog:
    """Return an empty log."""
    return open_log()
