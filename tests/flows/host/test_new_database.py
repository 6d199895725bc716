"""The database of a new Prefect server: migrated once, then copied; a server accepts it."""

import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from flows.config.settings import Settings
from flows.host import new_database
from flows.host.new_database import provide_database
from flows.services import prefect_server
from tests.support.here import here

pytestmark = pytest.mark.prefect


def tables(path: Path) -> set[str]:
    with closing(sqlite3.connect(path)) as database:
        return {name for (name,) in database.execute("SELECT name FROM sqlite_master")}


def version_of(path: Path) -> object:
    with closing(sqlite3.connect(path)) as database:
        return database.execute("SELECT version_num FROM alembic_version").fetchone()


def test_the_migrated_file_is_made_once_and_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "environment"))
    first, second = tmp_path / "first.db", tmp_path / "second.db"
    provide_database(first)
    (made,) = (tmp_path / "environment/share/harness").iterdir()
    as_made = made.stat()
    provide_database(second)
    assert made.stat() == as_made
    assert "flow_run" in tables(first)
    assert tables(first) == tables(second)
    with closing(sqlite3.connect(second)) as database:
        assert database.execute("SELECT count(*) FROM configuration").fetchone() == (0,)


def test_a_database_that_exists_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "prefect.db"
    path.write_bytes(b"mine")
    provide_database(path)
    assert path.read_bytes() == b"mine"


def test_an_environment_that_cannot_be_written_to_makes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> Path:
        raise PermissionError("read-only")

    monkeypatch.setattr(new_database, "_migrated_database", refuse)
    provide_database(tmp_path / "prefect.db")
    assert not (tmp_path / "prefect.db").exists()


def test_a_server_serves_the_copy_as_it_is(own_server: Settings) -> None:
    database = own_server.home / "prefect" / "prefect.db"
    database.parent.mkdir(parents=True)
    provide_database(database)
    migrated_to = version_of(database)
    url = prefect_server.server_daemon(own_server).up().url
    assert here().post(f"{url}/flow_runs/count", json={}).json() == 0
    assert version_of(database) == migrated_to
