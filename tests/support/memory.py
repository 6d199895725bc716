"""Shared by the tests of memory."""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta

from contracts.agents import AGENTS
from contracts.errors import ModelUnavailable
from memory.export_import import Imported, import_store
from memory.notes.notebook import Notebook
from memory.playbooks.library import Library
from memory.scope import LEVELS, Scope
from memory.types import Embedder

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


EIGHT = tuple(
    Scope(
        agent="native" if one.agent else None,
        user="ann" if one.user else None,
        company="acme" if one.company else None,
    )
    for one in LEVELS
)


def import_lines(library: Library, lines: Iterable[str]) -> Imported:
    """Import lines into a library, and into a notebook in the same database."""
    book = Notebook(library.engine, agents=AGENTS, embedder=None, clock=library.clock)
    return import_store(library, book, lines)
