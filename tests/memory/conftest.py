"""Libraries on SQLite and on a real Postgres; vectors from words, or from the local model."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from contracts.agents import AGENTS
from memory.notes.notebook import Notebook, open_notebook
from memory.playbooks.library import Library, open_library
from tests.support.memory import Clock, Open, WordEmbedder
from tests.support.postgres import new_postgres_database, new_postgres_store
from tests.support.stores import new_store


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def words() -> WordEmbedder:
    return WordEmbedder()


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str | Path:
    """Where a test's own store is, in which nothing is yet."""
    if request.param == "sqlite":
        return new_store(tmp_path / "harness.db")
    return new_postgres_store()


@pytest.fixture(params=["sqlite", "postgres"])
def no_tables(request: pytest.FixtureRequest, tmp_path: Path) -> str | Path:
    """Where a test's own database will be a store once the migrations have run."""
    if request.param == "sqlite":
        return tmp_path / "harness.db"
    return new_postgres_database()


@pytest.fixture
def opened(database: str | Path, tmp_path: Path, clock: Clock, words: WordEmbedder) -> Open:
    """Opens the test's library; options go to `open_library`."""

    def open_it(**options: object) -> AbstractContextManager[Library]:
        given = {"index": tmp_path / "index", "embedder": words.embedder, "clock": clock}
        return open_library(database, **{**given, **options})  # type: ignore[arg-type]  # a test's shortcut

    return open_it


@pytest.fixture
def library(opened: Open) -> Iterator[Library]:
    with opened() as made:
        yield made


@pytest.fixture
def on_sqlite(tmp_path: Path, clock: Clock, words: WordEmbedder) -> Iterator[Library]:
    """A library on SQLite, for tests that do not depend on the database."""
    store = new_store(tmp_path / "harness.db")
    with open_library(
        store, index=tmp_path / "index", embedder=words.embedder, clock=clock
    ) as made:
        yield made


@pytest.fixture
def open_book(
    database: str | Path, clock: Clock, words: WordEmbedder
) -> Callable[..., AbstractContextManager[Notebook]]:
    """Opens the test's notebook; options go to `open_notebook`."""

    def open_it(**options: object) -> AbstractContextManager[Notebook]:
        given = {"agents": AGENTS, "embedder": words.embedder, "clock": clock}
        return open_notebook(database, **{**given, **options})  # type: ignore[arg-type]  # a test's shortcut

    return open_it


@pytest.fixture
def notebook(
    open_book: Callable[..., AbstractContextManager[Notebook]],
) -> Iterator[Notebook]:
    with open_book() as made:
        yield made


@pytest.fixture
def book(tmp_path: Path, clock: Clock, words: WordEmbedder) -> Iterator[Notebook]:
    """A notebook on SQLite, for tests that do not depend on the database."""
    store = new_store(tmp_path / "harness.db")
    with open_notebook(store, agents=AGENTS, embedder=words.embedder, clock=clock) as made:
        yield made
