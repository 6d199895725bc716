"""Injection: what one agent is given, chosen among 10,000 notes and 5,000 examples."""

import random
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from uuid import uuid4

import numpy as np
from sqlalchemy import insert

from benchmarks.memory import corpus
from benchmarks.memory.surface import Times, timed, times
from benchmarks.row import Row
from contracts.agents import AGENTS, NATIVE
from memory.indexing import word_impacts
from memory.notes.notebook import Notebook, open_notebook
from memory.notes.store import note_columns, notebook_transaction
from memory.notes.types import BaseType, ExampleContent, NoteContent
from memory.scope import Scope
from memory.tables import entries, entry_vectors, entry_words
from memory.types import Embedder
from providers import minilm

NOTES = 10_000
EXAMPLES = 5_000
ROUNDS = 100
LIMIT_MS = 500
"""A node of an agent takes minutes, so nobody notices less."""
TYPES: tuple[BaseType, ...] = ("Constraint", "Preference", "Issue", "Context")
ME = Scope(agent=NATIVE, user="user 1", company="company 1")


def rows() -> Iterator[Row]:
    """All entries for everyone, so that none is filtered out; then spread over scopes."""
    for spread, said in ((False, "all for everyone"), (True, "of 20 users, 5 companies")):
        with tempfile.TemporaryDirectory(prefix="harness-bench-") as folder:
            model = Embedder(name=minilm.NAME, embed=minilm.embed)
            where = Path(folder) / "harness.db"
            with open_notebook(where, agents=AGENTS, embedder=model) as book:
                fill(book, spread=spread)
                yield from _rows(book, said)


def fill(book: Notebook, *, spread: bool) -> None:
    """Write all notes and examples in bulk; the first embeddings are real, the rest lie around."""
    made = corpus.contents(NOTES + EXAMPLES)
    vectors = corpus.vectors(made)
    lot = random.Random(3)  # noqa: S311 - the same lots each time, no secret
    at = datetime.now(UTC)
    written = [
        _entry(number, f"{one.title}: {one.use_case}", at, lot, spread=spread)
        for number, one in enumerate(made, 1)
    ]
    kept = [
        {
            "entry_key": number,
            "model": minilm.NAME,
            "dimensions": len(vector),
            "vector": np.asarray(vector, dtype="<f4").tobytes(),
        }
        for number, vector in enumerate(vectors, 1)
    ]
    with notebook_transaction(book.engine) as connection:
        for kind in (written[:NOTES], written[NOTES:]):
            connection.execute(insert(entries), kind)
        connection.execute(insert(entry_vectors), kept)
        spoken = [
            {"word": word, "entry_key": number, "impact": impact}
            for number, row in enumerate(written, 1)
            for word, impact in word_impacts(str(row["text"])).items()
        ]
        connection.execute(insert(entry_words), spoken)


def _rows(book: Notebook, spread: str) -> Iterator[Row]:
    tasks = _tasks(ROUNDS + 20)
    for task in tasks[:20]:
        book.inject(ME, task)
    embedding = times([timed(partial(minilm.embed, [task])) for task in tasks[20:]])
    injection = times([timed(partial(_inject, book, task)) for task in tasks[20:]])
    yield from _row(f"injection, {spread}", injection, embedding)


def _row(name: str, found: Times, embedding: Times) -> Iterator[Row]:
    for part, ours in zip(("p50", "p99"), found, strict=True):
        yield Row(
            name=f"{name}, {part}",
            ours=ours,
            baseline=embedding.p50,
            ratio=ours / embedding.p50,
            target=f"at most {LIMIT_MS} ms",
            unit="ms",
            note="baseline: embedding the task alone, p50",
        )


def _inject(book: Notebook, task: str) -> None:
    given = book.inject(ME, task)
    assert given.notes, task


def _entry(
    number: int, text: str, at: datetime, lot: random.Random, *, spread: bool
) -> dict[str, object]:
    note = number <= NOTES
    whose = _scope(lot) if spread else Scope()
    content: NoteContent | ExampleContent = (
        NoteContent(text=text, type=(kind := lot.choice(TYPES)), note_type=kind, scope=whose)
        if note
        else ExampleContent(
            input=text, output=f"done as asked: {text}", score=lot.randrange(101), scope=whose
        )
    )
    id_ = str(uuid4())
    return {
        **note_columns(content),
        "id": id_,
        "slug": id_,
        "kind": "note" if note else "example",
        "version": 1,
        "source": "person bench",
        "created_at": at,
        "updated_at": at,
    }


def _scope(lot: random.Random) -> Scope:
    return Scope(
        agent=lot.choice((None, *AGENTS)),
        user=lot.choice((None, f"user {lot.randrange(20)}")),
        company=lot.choice((None, f"company {lot.randrange(5)}")),
    )


def _tasks(count: int, seed: int = 7) -> list[str]:
    lot = random.Random(seed)  # noqa: S311 - the same lots each time, no secret
    return [
        f"please {lot.choice(corpus.VERBS)} our {lot.choice(corpus.THINGS)} on "
        f"{lot.choice(corpus.PLACES)} {lot.choice(corpus.WHEN)}, ticket {lot.randrange(10_000)}"
        for _ in range(count)
    ]
