"""The database that a new Prefect server begins with, migrated once for each Python environment.

    python -m flows.host.new_database    make it beforehand, as `make setup` does

Prefect's migrations of an empty SQLite file take 3 s of processor time, and every home has a server
of its own. So the first server keeps the migrated file in the environment, and later ones copy it.
"""

import asyncio
import shutil
import sys
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory


def provide_database(path: Path) -> None:
    """Create the database at `path` unless it exists.

    Nothing is created if the environment cannot be written to: the server then migrates by itself.
    """
    if path.exists():
        return
    try:
        migrated = _migrated_database()
    except PermissionError:
        return
    part = path.with_suffix(".part")
    shutil.copyfile(migrated, part)
    part.replace(path)


def _migrated_database() -> Path:
    """Return the file of this version of Prefect, which appears complete or not at all."""
    migrated = Path(sys.prefix) / "share" / "harness" / f"prefect-{version('prefect')}.db"
    if not migrated.exists():
        migrated.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix="prefect-", dir=migrated.parent) as folder:
            made = Path(folder) / "prefect.db"
            _migrate(made)
            made.replace(migrated)
    return migrated


def _migrate(path: Path) -> None:
    from prefect.server.database import provide_database_interface
    from prefect.settings import PREFECT_API_DATABASE_CONNECTION_URL, temporary_settings

    async def migrate() -> None:
        database = provide_database_interface()
        await database.create_db()
        await (await database.engine()).dispose()  # the write-ahead log goes into the file

    with temporary_settings({PREFECT_API_DATABASE_CONNECTION_URL: f"sqlite+aiosqlite:///{path}"}):
        asyncio.run(migrate())


if __name__ == "__main__":
    _migrated_database()
