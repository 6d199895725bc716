"""Libraries on SQLite and on a real Postgres; vectors from words, or from the local model."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from contracts.agents import AGENTS
from contracts.errors import ModelUnavailable
from memory.notes.notebook import Notebook, open_notebook
from memory.playbooks.library import Library, open_library
from memory.types import Embedder
from tests.postgres import new_postgres_database, new_postgres_store
from tests.stores import new_store

Open = Callable[..., AbstractContextManager[Library]]


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.now += timedelta(microseconds=1)
        return self.now

    def pass_days(self, days: float) -> None:
        self.now += timedelta(days=days)


class WordEmbedder:
    """Vectors of hashed words: texts that share words are near. May be told to be down."""

    def __init__(self, length: int = 64, name: str = "words") -> None:
        self.length = length
        self.name = name
        self.down = False
        self.texts: list[str] = []

    def __call__(self, texts: Sequence[str]) -> list[list[float]]:
        if self.down:
            raise ModelUnavailable("the test turned it off")
        self.texts += texts
        return [self._vector(text) for text in texts]

    def _vector(self, said: str) -> list[float]:
        vector = [0.001] * self.length
        for word in said.lower().split():
            place = int.from_bytes(hashlib.sha256(word.encode()).digest()[:4]) % self.length
            vector[place] += 1.0
        return vector

    @property
    def embedder(self) -> Embedder:
        return Embedder(name=self.name, embed=self, max_distance=0.7)


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
    """A library for what is no matter of the database."""
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
    """A notebook for what is no matter of the database."""
    store = new_store(tmp_path / "harness.db")
    with open_notebook(store, agents=AGENTS, embedder=words.embedder, clock=clock) as made:
        yield made
