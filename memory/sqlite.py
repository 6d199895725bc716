"""SQLite as many processes use it: a log written ahead, and one writer at a time.

A commit may also carry the log over into the file. SQLite before 3.51.3 can lose what another
process commits in that moment ("WAL-reset bug"). So who writes holds a lock of ours from before
the transaction until its connection is back in the pool, and nobody commits beside it.
"""

import fcntl
from pathlib import Path
from sqlite3 import Connection as SqliteConnection

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL
from sqlalchemy.pool import ConnectionPoolEntry

from memory.errors import StoreUnavailable
from memory.lock_file import acquire_lock

WRITE_LOCK_WAIT_S = 60
"""How long a writer waits for its turn."""

_PRAGMAS = ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON", "mmap_size=268435456")
_TURN = "turn to write"


def sqlite_engine(url: URL) -> Engine:
    """An engine on a SQLite file, whose folder is made, for this user only.

    Raises:
        StoreUnavailable: the folder cannot be made.
    """
    path = Path(url.database or "")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StoreUnavailable(f"cannot make {path.parent}: {error.strerror}") from error
    engine = create_engine(
        url, connect_args={"timeout": WRITE_LOCK_WAIT_S, "isolation_level": None}
    )
    event.listen(engine, "connect", _set_up)
    event.listen(engine, "begin", _begin)
    event.listen(engine, "checkin", _end_turn)
    return engine


def _set_up(connection: SqliteConnection, _: object) -> None:
    for pragma in _PRAGMAS:
        connection.execute(f"PRAGMA {pragma}")


def _begin(connection: Connection) -> None:
    if not connection.get_execution_options().get("writes", False):
        connection.exec_driver_sql("BEGIN")
        return
    _take_turn(connection)
    # A plain BEGIN that writes later fails at once when another writer came in between.
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _take_turn(connection: Connection) -> None:
    path = Path(f"{connection.engine.url.database}.write.lock")
    try:
        lock = path.open("a")
    except OSError as error:
        raise StoreUnavailable(f"cannot write {path}: {error.strerror}") from error
    connection.info[_TURN] = lock
    if not acquire_lock(lock, WRITE_LOCK_WAIT_S):
        raise StoreUnavailable(f"{path} is held by another for {WRITE_LOCK_WAIT_S} s")


def _end_turn(_: object, entry: ConnectionPoolEntry) -> None:
    lock = entry.info.pop(_TURN, None)
    if lock is not None:
        fcntl.flock(lock, fcntl.LOCK_UN)  # a process forked meanwhile has the file open as well
        lock.close()
