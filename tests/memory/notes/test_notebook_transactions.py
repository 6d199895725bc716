"""Writers of a notebook take turns on Postgres, where only rows are locked."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import pytest
from sqlalchemy import text

from contracts.agents import AGENTS
from memory.database import lock_until_commit
from memory.errors import StaleUpdate
from memory.notes.notebook import Notebook, open_notebook
from memory.notes.run_history import RunRating
from memory.notes.types import NoteType
from tests.support.memory import WordEmbedder
from tests.support.postgres import new_postgres_store
from tests.support.waiting import wait_until

_WAITING = text(
    "SELECT count(*) FROM pg_stat_activity "
    "WHERE datname = current_database() AND wait_event_type = 'Lock'"
)


@pytest.fixture
def shared(words: WordEmbedder) -> Iterator[Notebook]:
    with open_notebook(new_postgres_store(), agents=AGENTS, embedder=words.embedder) as made:
        yield made


def at_once(book: Notebook, *writers: Callable[[], object]) -> list[object]:
    """Return each writer's result or exception; each starts while the earlier ones wait."""
    with book.engine.connect() as first, ThreadPoolExecutor() as pool:
        lock_until_commit(first, "notebook")
        started = []
        for number, write in enumerate(writers, 1):
            started.append(pool.submit(write))
            _until_waiting(book, number)
        first.rollback()
    return [one.exception() or one.result() for one in started]


def _until_waiting(book: Notebook, number: int) -> None:
    def waiting() -> int:
        with book.engine.connect() as connection:
            return int(connection.execute(_WAITING).scalar_one())

    wait_until(lambda: waiting() == number)


def test_the_second_of_two_changes_of_agent_settings_is_refused(shared: Notebook) -> None:
    for version in (1, 2):  # first without a row of settings, then with one
        read = shared.agent_settings("pi")
        wanted = [partial(shared.save_agent_settings, replace(read, max_notes=n)) for n in (7, 9)]
        first, second = at_once(shared, *wanted)
        assert isinstance(second, StaleUpdate)
        assert first == shared.agent_settings("pi")
        assert (shared.agent_settings("pi").version, shared.agent_settings("pi").max_notes) == (
            version,
            7,
        )


def test_concurrent_ratings_of_one_run_all_succeed(shared: Notebook) -> None:
    rated = at_once(shared, *(partial(shared.runs.rate, "r1", n) for n in (10, 20, 95)))
    assert shared.runs.rating("r1") in rated
    assert all(isinstance(one, RunRating) for one in rated)


def test_concurrent_changes_of_one_note_type_all_succeed(shared: Notebook) -> None:
    laws = [NoteType(name="Law", type="Issue", priority=n) for n in (1, 2)]
    kept = at_once(shared, *(partial(shared.types.save, law) for law in laws))
    assert all(isinstance(one, NoteType) for one in kept)
