"""Tables and transactions of events, entities and approvals.

Events and entities are append-only: triggers refuse updates and deletions, and hashes reveal any
edit that bypasses the triggers. Times are ISO text in UTC, which sorts chronologically.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from json import JSONDecodeError

from sqlalchemy import (
    JSON,
    Column,
    Connection,
    Engine,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    text,
)
from sqlalchemy.exc import DatabaseError, OperationalError

from policy.errors import LogDamaged, LogUnavailable

metadata = MetaData()

entities = Table(
    "entities",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("origin", Text, nullable=False),
    Column("line", Text, nullable=False),
)
"""`line` is the canonical JSON of the entity; the id is its SHA-256."""

events = Table(
    "events",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("id", String(64), nullable=False, unique=True),
    Column("run_id", String(64), nullable=False, index=True),
    Column("kind", String(16), nullable=False),
    Column("replica", String(64), nullable=False),
    Column("counter", Integer, nullable=False),
    Column("line", Text, nullable=False),
    sqlite_autoincrement=True,
)
"""`line` is the canonical JSON of the event; the id is its SHA-256. `number` is the order of
insertion, in which causes stand before effects."""

merged_events = Table(
    "merged_events",
    metadata,
    Column("id", String(64), primary_key=True),
)
"""Events merged from another log. They are shown, but no plan is run from them."""

event_heads = Table(
    "event_heads",
    metadata,
    Column("id", String(64), primary_key=True),
)
"""Events without a successor. The next event names all of them as its causes."""

approvals = Table(
    "approvals",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("action", String(64), nullable=False, index=True),
    Column("run_id", String(64), nullable=False, index=True),
    Column("step", Integer, nullable=False),
    Column("op", String(255), nullable=False),
    Column("arguments", JSON, nullable=False),
    Column("denied", JSON, nullable=False),
    Column("status", String(16), nullable=False, index=True),
    Column("asked_at", String(32), nullable=False),
    Column("expires_at", String(32), nullable=False),
    Column("decided_at", String(32)),
    Column("decided_by", String(255)),
    Column("reason", Text, nullable=False),
    Column("node", String(255), nullable=False, server_default=""),
    Column("agent", String(64), nullable=False, server_default=""),
    Column("used_at", String(32)),
)

APPEND_ONLY = {"events": "id = NEW.id OR number = NEW.number", "entities": "id = NEW.id"}
"""Tables whose rows are never updated or deleted, and when a new row would replace an old one."""

POSTGRES_GUARD = " BEGIN RAISE EXCEPTION '% is append-only', TG_TABLE_NAME; END "
"""The body of the function that refuses changes on PostgreSQL."""


def sqlite_triggers(table: str) -> dict[str, str]:
    """Return the name and the statement of each trigger of an append-only table on SQLite."""
    refuse = f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
    there = f"EXISTS (SELECT 1 FROM {table} WHERE {APPEND_ONLY[table]})"  # noqa: S608 - names of ours
    before = {
        "no_update": f"UPDATE ON {table}",
        "no_delete": f"DELETE ON {table}",
        "no_replace": f"INSERT ON {table} WHEN {there}",
    }
    return {
        f"{table}_{name}": f"CREATE TRIGGER {table}_{name} BEFORE {event} {refuse}"
        for name, event in before.items()
    }


# ASCII of "harness", so that the number does not collide with locks of other programs.
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
    # A SQLite transaction is a snapshot; PostgreSQL reads each statement anew by default.
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
    except JSONDecodeError as error:
        raise LogDamaged(
            f"{name} holds an edited approval: {error}. Run `harness events verify`"
        ) from error
    except DatabaseError as error:
        raise LogDamaged(
            f"{name} refused the query: {_first_line(error)}. Run `harness events verify`"
        ) from error


def _first_line(error: DatabaseError) -> str:
    return str(error.orig).strip().splitlines()[0]
