"""Transactions on the database that holds plans, entities and events; somebody else opens it."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DatabaseError, OperationalError

from policy.errors import LogDamaged, LogUnavailable

_LOG_LOCK = 0x68_61_72_6E_65_73_73


@contextmanager
def write_transaction(engine: Engine) -> Iterator[Connection]:
    """One transaction that writes; of several, in any process, one at a time.

    Raises:
        LogUnavailable: the database does not answer, or cannot be written.
        LogDamaged: the database refuses it, as append-only or as corrupt.
    """
    with (
        _reading_errors(engine),
        engine.connect().execution_options(writes=True) as connection,
        connection.begin(),
    ):
        if engine.dialect.name != "sqlite":  # SQLite has one writer anyway
            connection.execute(text("SELECT pg_advisory_xact_lock(:n)"), {"n": _LOG_LOCK})
        yield connection


@contextmanager
def read_transaction(engine: Engine) -> Iterator[Connection]:
    """One transaction that sees the database at one moment.

    Raises:
        LogUnavailable: the database does not answer.
        LogDamaged: the database is corrupt.
    """
    one_moment = {} if engine.dialect.name == "sqlite" else {"isolation_level": "REPEATABLE READ"}
    with (
        _reading_errors(engine),
        engine.connect().execution_options(**one_moment) as connection,
    ):
        yield connection


@contextmanager
def _reading_errors(engine: Engine) -> Iterator[None]:
    try:
        yield
    except OperationalError as error:
        raise LogUnavailable(f"{_name(engine)} cannot be used: {_first_line(error)}") from error
    except DatabaseError as error:
        raise LogDamaged(
            f"{_name(engine)} refuses it: {_first_line(error)}. `harness events verify` says more"
        ) from error


def _name(engine: Engine) -> str:
    return f"the event log in {engine.url.render_as_string(hide_password=True)}"


def _first_line(error: DatabaseError) -> str:
    return str(error.orig).strip().splitlines()[0]
