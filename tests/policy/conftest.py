"""Event logs on SQLite and on PostgreSQL, with a clock that the test sets."""

import pytest

from policy.log.event_log import EventLog
from tests.support.policy import OpenLog, clock, open_log
from tests.support.postgres import new_postgres_store

__all__ = ("clock", "open_log")


@pytest.fixture(params=["sqlite", "postgres"])
def log(request: pytest.FixtureRequest, open_log: OpenLog) -> EventLog:
    """Return an empty log."""
    return open_log(where=None if request.param == "sqlite" else new_postgres_store())
