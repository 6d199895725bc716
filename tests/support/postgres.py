"""A real Postgres for the tests that run on one; it ends with the session."""

import os
import shutil
import socket
import subprocess
import tempfile
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path
from secrets import randbelow
from uuid import uuid4

import pytest
from sqlalchemy import create_engine, text

from memory.database import open_database


def new_postgres_store() -> str:
    """A database as the migrations leave it."""
    return new_postgres_database(template=_empty_store().rpartition("/")[2])


@cache
def _empty_store() -> str:
    made = new_postgres_database()
    open_database(made).dispose()
    return made


def new_postgres_database(*, template: str = "template1") -> str:
    """A database of its own, with nothing in it but what the template has."""
    server = _postgres()
    if server is None:
        pytest.skip("no Postgres here: apt-get install postgresql-15")
    name = f"test_{uuid4().hex[:12]}"
    engine = create_engine(f"{server}/postgres", isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name} TEMPLATE {template}"))
    engine.dispose()
    return f"{server}/{name}"


_cleanup = ExitStack()


def pytest_unconfigure() -> None:
    _cleanup.close()


@cache
def _postgres() -> str | None:
    """A server of our own on a loopback port, not run as root; ends with the test session."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not found:
        return None
    programs = found[-1].parent
    folder = Path(tempfile.mkdtemp(prefix="harness-postgres-"))
    _cleanup.callback(shutil.rmtree, folder, ignore_errors=True)
    who = "postgres" if os.getuid() == 0 else None
    if who is not None:
        shutil.chown(folder, who, who)

    def run(program: str, *arguments: str) -> None:
        argv = [str(programs / program), "-D", str(folder / "data"), *arguments]
        quiet = subprocess.DEVNULL
        subprocess.run(argv, check=True, stdout=quiet, stderr=quiet, user=who, group=who)

    run("initdb", "-U", "harness", "-A", "trust", "--no-sync")
    port = free_port()
    options = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -c fsync=off"
    run("pg_ctl", "-w", "-o", options, "start")
    _cleanup.callback(run, "pg_ctl", "-w", "-m", "immediate", "stop")
    return f"postgresql+psycopg://harness@127.0.0.1:{port}"


def free_port() -> int:
    """A port that nobody has, and that the kernel gives nobody until a slow server takes it."""
    while True:
        port = 10_000 + randbelow(20_000)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
