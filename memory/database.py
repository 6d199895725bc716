"""Opens the database: SQLite beside the home, or any SQLAlchemy URL; migrated, and checked."""

import os
import re
import shutil
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from json import JSONDecodeError
from pathlib import Path
from tempfile import mkdtemp

from filelock import FileLock, Timeout
from pydantic import ValidationError
from sqlalchemy import Connection, Engine, create_engine, inspect, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DatabaseError, IntegrityError, OperationalError

from contracts.errors import SettingsInvalid
from memory.errors import StoreBusy, StoreCorrupt, StoreTooNew, StoreUnavailable
from memory.sqlite import sqlite_engine
from memory.tables import InvalidTimestamp

REVISION = "0010"
"""The newest migration that this program knows."""

_HOLD = text("SELECT pg_advisory_xact_lock(:n)")


def open_database(location: str | Path) -> Engine:
    """An engine on a migrated database; a SQLite file is made when it is not there.

    Raises:
        SettingsInvalid: `where` is a URL that SQLAlchemy cannot use.
        StoreUnavailable: it does not answer or cannot be written.
        StoreCorrupt: the file is damaged; the message names it and how to go on.
        StoreTooNew: a newer Harness has migrated it.
    """
    url = _url(location)
    engine = _engine(url)
    try:
        with translated_errors(url):
            with engine.connect() as connection:
                found = _revision(connection)
            if found != REVISION:
                _migrate(engine, url)
    except BaseException:
        engine.dispose()
        raise
    return engine


@contextmanager
def write_transaction(engine: Engine) -> Iterator[Connection]:
    """One transaction that writes; it waits for its turn at the beginning, never in the middle."""
    with (
        translated_errors(engine.url),
        engine.connect().execution_options(writes=True) as connection,
        connection.begin(),
    ):
        yield connection


@contextmanager
def read_transaction(engine: Engine) -> Iterator[Connection]:
    """One transaction that sees the database at one moment."""
    one_moment = {} if engine.dialect.name == "sqlite" else {"isolation_level": "REPEATABLE READ"}
    with (
        translated_errors(engine.url),
        engine.connect().execution_options(**one_moment) as connection,
    ):
        yield connection


@contextmanager
def translated_errors(url: URL) -> Iterator[None]:
    """Turn what a database says of its own state into errors for a person."""
    try:
        yield
    except IntegrityError:
        raise  # says nothing of the database: what was written is wrong
    except (JSONDecodeError, InvalidTimestamp, ValidationError) as error:
        said = str(error).splitlines()[0]
        raise StoreCorrupt(f"a row of database {_name(url)} cannot be read: {said}") from error
    except DatabaseError as error:
        if "malformed" in str(error.orig) or "not a database" in str(error.orig):
            raise StoreCorrupt(_corrupt(url, error)) from error
        raise StoreUnavailable(f"database {_name(url)} cannot be used: {_said(error)}") from error


def lock_until_commit(connection: Connection, name: str) -> None:
    """Wait until no other transaction holds `what`, and hold it until this one ends."""
    if connection.dialect.name != "sqlite":  # there who writes is alone anyway
        connection.execute(_HOLD, {"n": _number(name)})


@contextmanager
def exclusive_lock(engine: Engine, name: str, *, wait_s: float | None = None) -> Iterator[None]:
    """Hold off every other process that wants to do `what` on this database.

    Raises:
        StoreBusy: another does it, and is not done after `wait_s`. None: wait as long as it takes.
    """
    busy = f"another process does {name!r} on database {_name(engine.url)}"
    if engine.dialect.name == "sqlite":
        path = f"{engine.url.database}.{name}.lock"
        try:
            held = FileLock(path, poll_interval=0.005).acquire(-1 if wait_s is None else wait_s)
        except Timeout as error:  # an OSError too
            raise StoreBusy(busy) from error
        except OSError as error:
            raise StoreUnavailable(f"cannot write {path}: {error.strerror}") from error
        with held:
            yield
        return
    with engine.begin() as connection:
        bound = text("SELECT set_config('lock_timeout', :ms, true)")
        connection.execute(bound, {"ms": str(round((wait_s or 0) * 1_000))})  # 0: no bound
        try:
            connection.execute(_HOLD, {"n": _number(name)})
        except OperationalError as error:
            raise StoreBusy(f"{busy}: {_said(error)}") from error
        yield


def database_file(location: str | Path) -> Path | None:
    """The SQLite file that is meant, whether it is there or not; None when it is no file.

    Raises:
        SettingsInvalid: `where` is a URL that SQLAlchemy cannot use.
    """
    url = _url(location)
    is_file = url.get_backend_name() == "sqlite" and url.database not in (None, "", ":memory:")
    return Path(url.database or "") if is_file else None


def back_up(path: Path) -> Path:
    """Copy a damaged database and its log aside, so that nothing is lost by what comes next.

    Each copy stands in a new folder beside the database, which this gives.

    Raises:
        StoreUnavailable: it cannot be read, or nothing can be written there.
    """
    try:
        made = mkdtemp(
            prefix=f"{path.name}.damaged-{datetime.now(UTC):%Y%m%dT%H%M%S}-", dir=path.parent
        )
        for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
            if path.with_name(name).exists():
                shutil.copy2(path.with_name(name), made)
    except OSError as error:
        raise StoreUnavailable(f"cannot copy {path} aside: {error.strerror}") from error
    return Path(made)


def _url(where: str | Path) -> URL:
    if isinstance(where, Path):
        return URL.create("sqlite", database=str(where.expanduser()))
    try:
        url = make_url(where)
        if url.drivername in ("postgres", "postgresql"):
            url = url.set(drivername="postgresql+psycopg")
        dialect = url.get_dialect()
        dialect.import_dbapi()
    except (ArgumentError, ValueError, ImportError) as error:
        raise _unusable(where) from error
    if dialect.is_async or dialect.name not in ("sqlite", "postgresql"):
        raise _unusable(where)
    return url


def _unusable(where: str) -> SettingsInvalid:
    # A password may stand before the @, and in what follows a "?"; and in what others say of it.
    place = re.split("[?&]", where.rpartition("@")[2])[0]
    return SettingsInvalid(
        f"memory database {place!r} is no URL that can be used: write a path, sqlite:///…, or "
        "postgresql+psycopg://user@host/name; no other driver is there"
    )


def _engine(url: URL) -> Engine:
    if url.get_backend_name() != "sqlite":
        return _forkable(create_engine(url, pool_pre_ping=True))
    return _forkable(sqlite_engine(url))


_open_engines: "weakref.WeakSet[Engine]" = weakref.WeakSet()


def _forkable(engine: Engine) -> Engine:
    """The same; a forked process makes connections of its own and leaves its parent's alone."""
    _watch_forks()
    _open_engines.add(engine)
    return engine


@cache
def _watch_forks() -> None:
    os.register_at_fork(after_in_child=_leave_connections)


def _leave_connections() -> None:
    for engine in _open_engines:
        engine.dispose(close=False)


def _revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()


def _migrate(engine: Engine, url: URL) -> None:
    """Bring the tables up to date; of many processes one does it and the others wait."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_migrations()).replace("%", "%%"))
    with (
        exclusive_lock(engine, "migrate"),
        engine.connect().execution_options(writes=True) as connection,
    ):
        found = _revision(connection)
        if found is not None and found not in _known(config):
            raise StoreTooNew(
                f"database {_name(url)} is at migration {found!r}; this Harness knows up to "
                f"{REVISION!r}. Use the newer Harness that made it, or another database"
            )
        config.attributes["connection"] = connection
        command.upgrade(config, REVISION)
        connection.commit()


def _known(config: object) -> set[str]:
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    assert isinstance(config, Config)  # noqa: S101 - tells the type checker
    return {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}


def _migrations() -> Path:
    spec = find_spec("migrations")
    if spec is None or spec.origin is None:
        raise StoreUnavailable("this Harness is installed without its migrations: install it again")
    return Path(spec.origin).parent


def _number(what: str) -> int:
    return int.from_bytes(sha256(f"harness {what}".encode()).digest()[:7])


def _name(url: URL) -> str:
    return url.set(query={}).render_as_string(hide_password=True)


def _said(error: DatabaseError) -> str:
    return str(error.orig).strip().splitlines()[0]


def _corrupt(url: URL, error: DatabaseError) -> str:
    return (
        f"database {_name(url)} is damaged ({_said(error)}). `harness memory doctor --back-up` "
        "copies it aside; then move it away and `harness memory import` your last export: that has "
        "the playbooks. Notes and examples are in copies of the database only"
    )
