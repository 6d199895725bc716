"""Does a question find its procedure? Paraphrases that share hardly a word, and terse requests.

The first half of the procedures is what the ranking was chosen by. The second half was kept for
the figures: nothing was tuned on its questions.
"""

import random
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.row import Row
from memory.playbooks.library import Library, open_library
from memory.types import Embedder, PlaybookContent, PlaybookFilter, PlaybookQuery
from providers import minilm

CUT = 5
FILLERS = ("please", "could", "somebody", "help", "today", "because", "great", "thanks", "urgent")
PROCEDURES = Path(__file__).with_name("procedures.txt")


class Case(NamedTuple):
    """A question, and the title of the procedure that answers it."""

    question: str
    title: str


def rows() -> Iterator[Row]:
    """Recall among the first five: both arms together, against words alone and vectors alone."""
    lot = random.Random(3)  # noqa: S311 - the same lots each time, no secret
    contents, cases = read(PROCEDURES)
    with tempfile.TemporaryDirectory(prefix="harness-bench-") as folder:
        model = Embedder(name=minilm.NAME, embed=minilm.embed)
        home = Path(folder)
        with open_library(home / "harness.db", index=home / "index", embedder=model) as library:
            for content in contents:
                library.create(content)
            terse = [_terse(content.title, lot) for content in contents]
            half = len(cases) // 2
            yield from _rows(library, "paraphrases, tuned on", cases[:half])
            yield from _rows(library, "paraphrases, held out", cases[half:])
            yield from _rows(library, "one word of the title", terse[half:])
            yield from _rows(library, "both kinds, held out", [*cases[half:], *terse[half:]])


def read(path: Path) -> tuple[list[PlaybookContent], list[Case]]:
    """The procedures, and the question of each."""
    contents, cases = [], []
    for line in path.read_text().splitlines():
        title, use_case, process, question = (part.strip() for part in line.split("|"))
        contents.append(PlaybookContent(title=title, use_case=use_case, process=process))
        cases.append(Case(question, title))
    return contents, cases


def _terse(title: str, lot: random.Random) -> Case:
    """One word of the title among words that say nothing."""
    word = lot.choice([part for part in title.split() if len(part) > 2])
    said = [word, *lot.sample(FILLERS, 5)]
    lot.shuffle(said)
    return Case(" ".join(said), title)


def _rows(library: Library, kind: str, cases: Sequence[Case]) -> Iterator[Row]:
    titles = {playbook.key: playbook.title for playbook in library.list()}
    both, words, vectors = [], [], []
    for question, title in cases:
        hits = library.search(PlaybookQuery(text=question, limit=CUT, max_distance=2.0))
        both.append(_place([hit.playbook.title for hit in hits], title))
        found = library.index.search(question, PlaybookFilter(), depth=CUT, max_distance=2.0)
        words.append(_place([titles[key] for key, _ in found.words], title))
        vectors.append(_place([titles[key] for key, _ in found.vectors or ()], title))
    size = f"{len(cases)} questions, {len(titles)} procedures"
    for measure, of in (("recall@5", _recall), ("MRR@5", _reciprocal)):
        target = "at least 0.9" if measure == "recall@5" else "above both arms"
        yield _row(f"{kind}: {measure} against words", of(both), of(words), target, size)
        yield _row(f"{kind}: {measure} against vectors", of(both), of(vectors), target, size)


def _row(name: str, ours: float, baseline: float, target: str, note: str) -> Row:
    ratio = ours / baseline if baseline else 0.0
    return Row(
        name=name, ours=ours, baseline=baseline, ratio=ratio, target=target, unit="", note=note
    )


def _place(found: Sequence[str], title: str) -> int | None:
    return found.index(title) + 1 if title in found else None


def _recall(places: Sequence[int | None]) -> float:
    return sum(place is not None for place in places) / len(places)


def _reciprocal(places: Sequence[int | None]) -> float:
    return sum(1 / place for place in places if place) / len(places)
