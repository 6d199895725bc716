"""Event logs on SQLite and on a real Postgres, with a clock that is set by hand."""

import pytest

from policy.log.event_log import EventLog
from tests.support.policy import OpenLog, clock, open_log
from tests.support.postgres import new_postgres_store

__all__ = ("clock", "open_log")


@pytest.fixture(params=["sqlite", "postgres"])
def log(request: pytest.FixtureRequest, open_log: OpenLog) -> EventLog:
    """A log that is empty."""
    return open_log(where=None if request.param == "sqlite" else new_postgres_store())
