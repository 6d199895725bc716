"""What is remembered of notes: never older than the last write, by whichever process."""

import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.database import read_transaction
from memory.notes import generation as note_generation
from memory.notes.notebook import Notebook
from memory.notes.types import ExampleContent, Note, NoteContent
from memory.notes.vector_cache import Shelf, ShelfKey, Shelves
from memory.scope import EVERYONE, Scope, scope_key
from tests.support import colleague
from tests.support.memory import WordEmbedder

ANN = Scope(user="ann")
ORDERS = (
    "add tidy the code",
    "add tidy the code twice",
    "well tidy the code",
    "revoke tidy the code well",
    "approve tidy the code well",
    "turn off",
    "turn on",
    "hide tidy the code well",
    "remove tidy the code twice",
    "add tidy the code thrice",
)


def at_the_same_notebook(database: str | Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "tests.support.colleague", str(database)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_each_process_sees_the_others_write_at_once(
    open_book: Callable[..., AbstractContextManager[Notebook]], database: str | Path
) -> None:
    with open_book() as mine, at_the_same_notebook(database) as other:
        assert other.stdin is not None
        assert other.stdout is not None

        def theirs(order: str) -> str:
            print(order, file=other.stdin, flush=True)
            return str(other.stdout and other.stdout.readline()).strip()

        for order in ORDERS:
            before = colleague.given(mine)  # so that both have an answer to forget
            told = theirs(order)
            assert told != before, order
            assert colleague.given(mine) == told, order
            note = mine.add(NoteContent(text="tidy this", scope=Scope(company="acme")))
            assert theirs("look") == colleague.given(mine)
            mine.remove(note.id)
        assert theirs("look") == colleague.given(mine) == "tidy the code thrice"
        other.stdin.close()
        assert other.wait() == 0


def shelves(book: Notebook, kept: Shelves) -> list[Shelf]:
    """The shelves of ann's and of everyone's notes."""
    wheres = [ShelfKey("note", scope_key(scope), "words", 64) for scope in (EVERYONE, ANN)]
    with read_transaction(book.engine) as connection:
        generation = note_generation.current_generation(connection)
        found = kept.at(connection, generation, wheres)
    return [found[where] for where in wheres]


def write(book: Notebook, words: WordEmbedder, what: str, which: int) -> None:
    """One change; `which` picks among the notes there are."""
    notes = book.list("note")
    note = notes[which % len(notes)] if notes else None
    words.down = what == "unembedded"
    match what, note:
        case "example", _:
            book.add(ExampleContent(input=f"input {which}", output="x"))
        case "embed", _:
            book.embeddings.embed_missing()
        case "reword", Note():
            book.edit(replace(note, text=f"{note.text} and {which}"))
        case "move", Note():
            book.edit(replace(note, scope=ANN if note.scope == EVERYONE else EVERYONE))
        case "revoke", Note():
            book.revoke(note.id)
        case "approve", Note():
            book.approve(note.id)
        case "remove", Note():
            book.remove(note.id)
        case _:
            book.add(NoteContent(text=f"note {which}", type="Constraint" if which % 2 else "Issue"))
    words.down = False


CHANGES = ("add", "add", "unembedded", "embed", "example", "reword", "move", "revoke", "approve")


@settings(max_examples=30)
@given(
    st.lists(
        st.tuples(st.sampled_from((*CHANGES, "remove")), st.integers(0, 9)), min_size=1, max_size=12
    )
)
def test_a_shelf_that_is_kept_up_is_as_one_made_anew(
    book: Notebook, words: WordEmbedder, wanted: list[tuple[str, int]]
) -> None:
    kept = Shelves()
    for what, which in wanted:
        write(book, words, what, which)
        for ours, new in zip(shelves(book, kept), shelves(book, Shelves()), strict=True):
            assert ours.waiting == new.waiting
            for field in (
                "keys",
                "versions",
                "priorities",
                "standing",
                "bare",
                "expires",
                "vectors",
            ):
                assert np.array_equal(getattr(ours, field), getattr(new, field)), field


def test_only_what_changed_is_read_again(book: Notebook) -> None:
    for number in range(5):
        book.add(NoteContent(text=f"note {number}"))
    kept = Shelves()
    before, _ = shelves(book, kept)
    book.add(NoteContent(text="hers", scope=ANN))
    after, hers = shelves(book, kept)
    assert after.vectors is before.vectors
    assert len(hers.vectors) == 1
