"""The database: SQLite below `HARNESS_HOME`, or any SQLAlchemy URL; migrated when it is opened.

SQLite runs in WAL mode with one writer at a time. Before version 3.51.3 it can lose a commit of
another process when a commit also copies the log into the file ("WAL-reset bug"). So a writer
holds a lock file of ours from before its transaction until its connection is back in the pool.
"""

import fcntl
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
from io import TextIOWrapper
from json import JSONDecodeError
from pathlib import Path
from sqlite3 import Connection as SqliteConnection
from tempfile import mkdtemp
from time import monotonic, sleep

from pydantic import ValidationError
from sqlalchemy import Connection, Engine, create_engine, event, inspect, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DatabaseError, IntegrityError, OperationalError
from sqlalchemy.pool import ConnectionPoolEntry

from contracts.errors import SettingsInvalid
from memory.errors import StoreBusy, StoreCorrupt, StoreTooNew, StoreUnavailable
from memory.tables import InvalidTimestamp

REVISION = "0015"
"""The newest migration that this program knows."""

WRITE_LOCK_WAIT_S = 60
"""Seconds that a writer waits for another one on SQLite."""

# In WAL mode synchronous=NORMAL cannot damage the file: a power cut may lose the last commits, a
# killed process loses none.
_PRAGMAS = ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON", "mmap_size=268435456")
_ADVISORY_LOCK = text("SELECT pg_advisory_xact_lock(:n)")
_WRITE_LOCK = "write lock"


def open_database(location: str | Path) -> Engine:
    """Return an engine on a migrated database; a missing SQLite file is created.

    Raises:
        SettingsInvalid: `location` is a URL that SQLAlchemy cannot use.
        StoreUnavailable: the database does not answer or cannot be written.
        StoreCorrupt: the file is damaged; the message says how to recover.
        StoreTooNew: a newer Harness has migrated it.
    """
    url = _url(location)
    is_file = url.get_backend_name() == "sqlite"
    engine = _sqlite_engine(url) if is_file else create_engine(url, pool_pre_ping=True)
    _close_connections_after_fork()
    _open_engines.add(engine)
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
    """Open a transaction that writes. It waits for other writers when it begins, not later."""
    with (
        translated_errors(engine.url),
        engine.connect().execution_options(writes=True) as connection,
        connection.begin(),
    ):
        yield connection


@contextmanager
def read_transaction(engine: Engine) -> Iterator[Connection]:
    """Open a transaction that sees one consistent state of the database."""
    # SQLite reads one state from the first statement on; Postgres does so at this level only.
    snapshot = {} if engine.dialect.name == "sqlite" else {"isolation_level": "REPEATABLE READ"}
    with (
        translated_errors(engine.url),
        engine.connect().execution_options(**snapshot) as connection,
    ):
        yield connection


@contextmanager
def translated_errors(url: URL) -> Iterator[None]:
    """Raise errors of the database as StoreCorrupt or StoreUnavailable, with a plain message."""
    try:
        yield
    except IntegrityError:
        raise  # about the data written, not about the database
    except (JSONDecodeError, InvalidTimestamp, ValidationError) as error:
        reason = str(error).splitlines()[0]
        raise StoreCorrupt(f"a row of database {_name(url)} cannot be read: {reason}") from error
    except DatabaseError as error:
        reason = _first_line(error)
        if "malformed" in reason or "not a database" in reason:
            raise StoreCorrupt(
                f"database {_name(url)} is damaged ({reason}). `harness memory doctor --back-up` "
                "copies it aside; then move it away and `harness memory import` your last export"
            ) from error
        raise StoreUnavailable(f"database {_name(url)} cannot be used: {reason}") from error


def lock_until_commit(connection: Connection, name: str) -> None:
    """Wait for the lock of this name and hold it until the transaction ends."""
    if connection.dialect.name != "sqlite":  # SQLite has one writer at a time anyway
        connection.execute(_ADVISORY_LOCK, {"n": _lock_number(name)})


@contextmanager
def exclusive_lock(engine: Engine, name: str, *, wait_s: float | None = None) -> Iterator[None]:
    """Hold a lock against all other processes on this database.

    Raises:
        StoreBusy: another process holds it for longer than `wait_s`. None waits without limit.
    """
    busy = f"another process holds the lock {name!r} of database {_name(engine.url)}"
    if engine.dialect.name == "sqlite":
        from filelock import FileLock, Timeout  # here: it imports asyncio

        path = f"{engine.url.database}.{name}.lock"
        try:
            held = FileLock(path, poll_interval=0.005).acquire(-1 if wait_s is None else wait_s)
        except Timeout as error:  # a subclass of OSError
            raise StoreBusy(busy) from error
        except OSError as error:
            raise StoreUnavailable(f"cannot write {path}: {error.strerror}") from error
        with held:
            yield
        return
    with engine.begin() as connection:
        timeout = text("SELECT set_config('lock_timeout', :ms, true)")  # 0: no limit
        connection.execute(timeout, {"ms": str(round((wait_s or 0) * 1_000))})
        try:
            connection.execute(_ADVISORY_LOCK, {"n": _lock_number(name)})
        except OperationalError as error:
            raise StoreBusy(f"{busy}: {_first_line(error)}") from error
        yield


def acquire_lock(lock: TextIOWrapper, within_s: float) -> bool:
    """Lock an open file; return False if another process holds it for all of `within_s`.

    Closing the file releases the lock. Unlike `flock` without a limit, this does not wait for ever
    for a process that was stopped.
    """
    deadline = monotonic() + within_s
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if monotonic() > deadline:
                return False
            sleep(0.002)
        else:
            return True


def database_file(location: str | Path) -> Path | None:
    """Return the path of a SQLite database, existing or not; None for other databases.

    Raises:
        SettingsInvalid: `location` is a URL that SQLAlchemy cannot use.
    """
    url = _url(location)
    is_file = url.get_backend_name() == "sqlite" and url.database not in (None, "", ":memory:")
    return Path(url.database or "") if is_file else None


def back_up(path: Path) -> Path:
    """Copy a SQLite file and its log to a new folder beside it; return the folder.

    Raises:
        StoreUnavailable: the file cannot be read, or the folder cannot be written.
    """
    prefix = f"{path.name}.damaged-{datetime.now(UTC):%Y%m%dT%H%M%S}-"
    try:
        folder = mkdtemp(prefix=prefix, dir=path.parent)
        # The newest commits may be in the log only.
        for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
            if path.with_name(name).exists():
                shutil.copy2(path.with_name(name), folder)
    except OSError as error:
        raise StoreUnavailable(f"cannot copy {path} aside: {error.strerror}") from error
    return Path(folder)


def _url(location: str | Path) -> URL:
    if isinstance(location, Path):
        return URL.create("sqlite", database=str(location.expanduser()))
    try:
        url = make_url(location)
        if url.drivername in ("postgres", "postgresql"):
            url = url.set(drivername="postgresql+psycopg")
        dialect = url.get_dialect()
        dialect.import_dbapi()
    except (ArgumentError, ValueError, ImportError) as error:
        raise _unusable(location) from error
    if dialect.is_async or dialect.name not in ("sqlite", "postgresql"):
        raise _unusable(location)
    return url


def _unusable(location: str) -> SettingsInvalid:
    # A password may stand before the @ and after the "?".
    place = re.split("[?&]", location.rpartition("@")[2])[0]
    return SettingsInvalid(
        f"memory database {place!r} is not a URL that can be used: write a path, sqlite:///…, or "
        "postgresql+psycopg://user@host/name; no other driver is supported"
    )


def _sqlite_engine(url: URL) -> Engine:
    path = Path(url.database or "")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StoreUnavailable(f"cannot make {path.parent}: {error.strerror}") from error
    # isolation_level None: sqlite3 would otherwise begin transactions itself, without the write
    # lock.
    arguments = {"timeout": WRITE_LOCK_WAIT_S, "isolation_level": None}
    engine = create_engine(url, connect_args=arguments)
    event.listen(engine, "connect", _set_pragmas)
    event.listen(engine, "begin", _begin)
    event.listen(engine, "checkin", _release_write_lock)
    return engine


def _set_pragmas(connection: SqliteConnection, _: object) -> None:
    for pragma in _PRAGMAS:
        connection.execute(f"PRAGMA {pragma}")


def _begin(connection: Connection) -> None:
    if not connection.get_execution_options().get("writes", False):
        connection.exec_driver_sql("BEGIN")
        return
    if _WRITE_LOCK not in connection.info:  # a migration begins several transactions
        path = Path(f"{connection.engine.url.database}.write.lock")
        try:
            lock = path.open("a")
        except OSError as error:
            raise StoreUnavailable(f"cannot write {path}: {error.strerror}") from error
        connection.info[_WRITE_LOCK] = lock
        if not acquire_lock(lock, WRITE_LOCK_WAIT_S):
            raise StoreUnavailable(f"another process held {path} for {WRITE_LOCK_WAIT_S} s")
    # A plain BEGIN that writes later fails at once if another process wrote in between.
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _release_write_lock(_: object, entry: ConnectionPoolEntry) -> None:
    lock = entry.info.pop(_WRITE_LOCK, None)
    if lock is not None:
        fcntl.flock(lock, fcntl.LOCK_UN)  # a child forked meanwhile has the file open as well
        lock.close()


_open_engines: "weakref.WeakSet[Engine]" = weakref.WeakSet()


@cache
def _close_connections_after_fork() -> None:
    """Have forked children open connections of their own, and leave those of the parent alone."""

    def forget_connections() -> None:
        for engine in _open_engines:
            engine.dispose(close=False)

    os.register_at_fork(after_in_child=forget_connections)


def _revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()


def _migrate(engine: Engine, url: URL) -> None:
    """Migrate to `REVISION`; of several processes one does it and the others wait."""
    from alembic import command
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    spec = find_spec("migrations")
    if spec is None or spec.origin is None:
        raise StoreUnavailable("this Harness is installed without its migrations: install it again")
    config = Config()
    # Alembic reads the option with ConfigParser, which interpolates %.
    config.set_main_option("script_location", str(Path(spec.origin).parent).replace("%", "%%"))
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    with (
        exclusive_lock(engine, "migrate"),
        engine.connect().execution_options(writes=True) as connection,
    ):
        # Asked again: another process may have migrated while this one waited.
        found = _revision(connection)
        if found is not None and found not in known:
            raise StoreTooNew(
                f"database {_name(url)} is at migration {found!r}; this Harness knows up to "
                f"{REVISION!r}. Use the newer Harness that made it, or another database"
            )
        config.attributes["connection"] = connection
        command.upgrade(config, REVISION)
        connection.commit()


def _lock_number(name: str) -> int:
    # Postgres takes a signed 64-bit number, so seven bytes are used.
    return int.from_bytes(sha256(f"harness {name}".encode()).digest()[:7])


def _name(url: URL) -> str:
    return url.set(query={}).render_as_string(hide_password=True)


def _first_line(error: DatabaseError) -> str:
    return str(error.orig).strip().splitlines()[0]
