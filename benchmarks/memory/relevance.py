"""Is the right note among the five that are injected?

202 notes are what the procedures say they are for; their tasks share hardly a word with them. Types
and scopes are dealt out at random, so that ranking by specificity and by note type can push a
right note out, as in real stores. The distance limit was chosen on the
first half; the design was settled with both in view.

155 are rules of a house, as people write them, with a task that each rules: most tasks do not
name what the rule is about ("run all the tests" and which database is not for that). Nothing was
chosen by these.
"""

import random
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.memory.retrieval import PROCEDURES, read
from benchmarks.row import Row
from contracts.agents import NATIVE
from memory.notes.notebook import Notebook, open_notebook
from memory.notes.types import BaseType, NoteContent
from memory.scope import LEVELS, Scope
from memory.types import Embedder
from providers import minilm

RULES = Path(__file__).with_name("notes.txt")
ME = Scope(agent=NATIVE, user="ann", company="acme")
MIXED: tuple[BaseType, ...] = ("Constraint", "Preference", "Issue", "Context", "Example")


def rows() -> Iterator[Row]:
    """The share of tasks whose note is given, by the default settings; at least 0.9."""
    for mixed, said in ((False, "one scope and type"), (True, "scopes and types mixed")):
        with _book() as book:
            cases = _fill(book, mixed=mixed)
            half = len(cases) // 2
            yield _row(f"{said}, tuned on", book, cases[:half])
            yield _row(f"{said}, held out", book, cases[half:])
    with _book() as book:
        yield _row("rules of a house", book, _fill_with_rules(book))


@contextmanager
def _book() -> Iterator[Notebook]:
    model = Embedder(name=minilm.NAME, embed=minilm.embed)
    with (
        tempfile.TemporaryDirectory(prefix="harness-bench-") as folder,
        open_notebook(Path(folder) / "h.db", agents=(NATIVE,), embedder=model) as book,
    ):
        yield book


def _row(said: str, book: Notebook, cases: Sequence[tuple[str, str]]) -> Row:
    found = _found(book, cases)
    return Row(
        name=f"note relevance, {said}",
        ours=found,
        baseline=1.0,
        ratio=found,
        target="at least 0.9",
        unit="",
        note=f"{len(cases)} pairs; the right note among the five injected",
    )


def _fill_with_rules(book: Notebook) -> list[tuple[str, str]]:
    """Each task with the id of the rule for it."""
    pairs = [line.split(" | ") for line in RULES.read_text().splitlines()]
    return [(task, book.add(NoteContent(text=rule)).id) for rule, task in pairs]


def _fill(book: Notebook, *, mixed: bool) -> list[tuple[str, str]]:
    """Each task with the id of its note."""
    lot = random.Random(5)  # noqa: S311 - the same lots each time, no secret
    contents, asked = read(PROCEDURES)
    cases = []
    for content, case in zip(contents, asked, strict=True):
        text = f"{content.title}: {content.use_case}"
        note = NoteContent(text=text)
        if mixed:
            one = lot.choice(LEVELS)
            whose = Scope(
                agent=ME.agent if one.agent else None,
                user=ME.user if one.user else None,
                company=ME.company if one.company else None,
            )
            note = NoteContent(text=text, type=lot.choice(MIXED), scope=whose)
        cases.append((case.question, book.add(note).id))
    return cases


def _found(book: Notebook, cases: Sequence[tuple[str, str]]) -> float:
    right = [
        note in {one.id for one in book.inject(ME, question).notes} for question, note in cases
    ]
    return sum(right) / len(right)
