"""Transactions on the database of plans, entities, events and approvals."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DatabaseError, OperationalError

from policy.errors import LogDamaged, LogUnavailable

_LOG_LOCK = 0x68_61_72_6E_65_73_73


@contextmanager
def write_transaction(engine: Engine) -> Iterator[Connection]:
    """Open a transaction that writes; only one runs at a time, across all processes.

    Raises:
        LogUnavailable: the database does not answer, or cannot be written.
        LogDamaged: the database refuses the change, as append-only or as corrupt.
    """
    with (
        _database_errors(engine),
        engine.connect().execution_options(writes=True) as connection,
        connection.begin(),
    ):
        if engine.dialect.name != "sqlite":  # SQLite allows one writer anyway
            connection.execute(text("SELECT pg_advisory_xact_lock(:n)"), {"n": _LOG_LOCK})
        yield connection


@contextmanager
def read_transaction(engine: Engine) -> Iterator[Connection]:
    """Open a transaction that reads one consistent state of the database.

    Raises:
        LogUnavailable: the database does not answer.
        LogDamaged: the database is corrupt.
    """
    snapshot = {} if engine.dialect.name == "sqlite" else {"isolation_level": "REPEATABLE READ"}
    with (
        _database_errors(engine),
        engine.connect().execution_options(**snapshot) as connection,
    ):
        yield connection


@contextmanager
def _database_errors(engine: Engine) -> Iterator[None]:
    name = f"the event log in {engine.url.render_as_string(hide_password=True)}"
    try:
        yield
    except OperationalError as error:
        raise LogUnavailable(f"{name} cannot be used: {_first_line(error)}") from error
    except DatabaseError as error:
        raise LogDamaged(
            f"{name} refused the query: {_first_line(error)}. Run `harness events verify`"
        ) from error


def _first_line(error: DatabaseError) -> str:
    return str(error.orig).strip().splitlines()[0]
