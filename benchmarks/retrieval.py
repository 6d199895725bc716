"""Retrieval on public data: `python -m benchmarks.retrieval --data FOLDER`.

FOLDER holds one folder for each set, in the format of BEIR: `corpus.jsonl` (`_id`, `title`, `text`,
and `use_case` if a set has one), `queries.jsonl` (`_id`, `text`) and `qrels/test.tsv`. Each text is
stored as a playbook and each query searched with the product's own index and fusion. The weight of
the words is chosen for each set on the others. Then each text is stored as a note.
"""

import argparse
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from math import log2
from pathlib import Path
from statistics import mean
from typing import NamedTuple

from sqlalchemy import Connection

from contracts.agents import NATIVE
from memory.database import read_transaction
from memory.notes.content import NOTE_LIMIT
from memory.notes.notebook import open_notebook
from memory.notes.search import NoteSearch
from memory.notes.types import NoteContent
from memory.playbooks.index import IndexMatches
from memory.playbooks.library import open_library
from memory.playbooks.search import MATCHES_PER_ARM, ranked_keys
from memory.relevance import WORD_WEIGHT, fuse_scores
from memory.scope import Scope
from memory.types import Embedder, PlaybookContent, PlaybookFilter, Vector
from memory.vectors.embeddings import embed_query
from providers import minilm

CUT = 10
WEIGHTS = (0.25, 0.5, 0.7, 1.0, 1.5, 2.0)
RRF_K = 60

Ranking = Sequence[int]
Gains = Mapping[int, int]


class Asked(NamedTuple):
    """The results of both arms for a query, and the graded relevance of playbooks by key."""

    found: IndexMatches
    gains: Gains


def main() -> None:
    """Print nDCG@10 of each set for words, vectors, RRF and the product's fusion.

    The fusion is measured with its own weight, and with the one that is best on the other sets.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    folder: Path = parser.parse_args().data
    sets = {at.parent.name: _ask(at.parent) for at in sorted(folder.glob("*/corpus.jsonl"))}
    names = ("words", "vectors", "RRF", "product", "left out", "weight")
    print(f"{'set':<14}" + "".join(f"{name:>10}" for name in names), flush=True)
    table = [_row(name, sets) for name in sets]
    for name, row in zip(sets, table, strict=True):
        print(f"{name:<14}" + "".join(f"{value:>10.3f}" for value in row))
    _print_mean(table)
    print(f"\n{'as notes':<14}" + "".join(f"{name:>10}" for name in names[:4]), flush=True)
    table = []
    for at in sorted(folder.glob("*/corpus.jsonl")):
        table.append(_note_row(at.parent))
        print(f"{at.parent.name:<14}" + "".join(f"{value:>10.3f}" for value in table[-1]))
    _print_mean(table)


def _print_mean(table: Sequence[Sequence[float]]) -> None:
    means = [mean(column) for column in zip(*table, strict=True)]
    print(f"{'mean':<14}" + "".join(f"{value:>10.3f}" for value in means))


def _row(name: str, sets: Mapping[str, Sequence[Asked]]) -> list[float]:
    """Return the figures of one set; the weight is the one that is best on the other sets."""
    others = [asked for other, asked in sets.items() if other != name] or [sets[name]]
    weight = max(WEIGHTS, key=lambda w: mean(_score(asked, _fused(w)) for asked in others))
    rankers = (_words, _vectors, _rrf, _fused(WORD_WEIGHT), _fused(weight))
    return [*(_score(sets[name], ranker) for ranker in rankers), weight]


def _ask(folder: Path) -> list[Asked]:
    """Store the corpus of a set as playbooks, and search for each of its queries."""
    queries = {row["_id"]: row["text"] for row in _lines(folder / "queries.jsonl")}
    embedder = Embedder(name=minilm.NAME, embed=minilm.embed)
    with tempfile.TemporaryDirectory(prefix="harness-bench-") as home:
        database, index = Path(home) / "harness.db", Path(home) / "index"
        with open_library(database, index=index, embedder=embedder) as library:
            keys = {}
            for row in _lines(folder / "corpus.jsonl"):
                content = PlaybookContent(
                    title=row["title"][:255] or "untitled",
                    use_case=row.get("use_case", ""),
                    process=row["text"],
                )
                keys[row["_id"]] = library.create(content).key
            gains = _gains(folder, keys)
            return [
                Asked(
                    library.index.search(
                        text, PlaybookFilter(), depth=MATCHES_PER_ARM, max_distance=2.0
                    ),
                    gains[query],
                )
                for query, text in queries.items()
            ]


def _note_row(folder: Path) -> list[float]:
    """Store the corpus of a set as notes; return nDCG@10 by words, vectors, RRF and the product."""
    embedder = Embedder(name=minilm.NAME, embed=minilm.embed)
    with (
        tempfile.TemporaryDirectory(prefix="harness-bench-") as home,
        open_notebook(Path(home) / "harness.db", agents=(NATIVE,), embedder=embedder) as book,
    ):
        keys = {
            row["_id"]: book.add(
                NoteContent(text=f"{row['title']}: {row['text']}"[:NOTE_LIMIT])
            ).key
            for row in _lines(folder / "corpus.jsonl")
        }
        book.index.embed_changes()
        gains = _gains(folder, keys)
        found: list[list[float]] = []
        with read_transaction(book.engine) as connection:
            for row in _lines(folder / "queries.jsonl"):
                vector = embed_query(embedder, row["text"])
                words, vectors, both = (
                    _notes(connection, task, of)
                    for task, of in ((row["text"], None), ("", vector), (row["text"], vector))
                )
                rankings = (words, vectors, _reciprocal_ranks(words, vectors), both)
                found.append([_ndcg(one[:CUT], gains[row["_id"]]) for one in rankings])
    return [mean(column) for column in zip(*found, strict=True)]


def _notes(connection: Connection, task: str, vector: Vector | None) -> Ranking:
    search = NoteSearch(
        connection=connection,
        viewer=Scope(agent=NATIVE),
        at=datetime.now(UTC),
        task=task,
        model=minilm.NAME,
        vector=vector,
    )
    return [one.key for one in search.find("note", "Relevant", MATCHES_PER_ARM).entries]


def _gains(folder: Path, keys: Mapping[str, int]) -> dict[str, dict[int, int]]:
    """Return for each query the graded relevance of the texts, by their keys."""
    gains: dict[str, dict[int, int]] = {}
    for line in (folder / "qrels" / "test.tsv").read_text().splitlines()[1:]:
        query, text, score = line.split("\t")
        gains.setdefault(query, {})[keys[text]] = int(score)
    return gains


def _lines(path: Path) -> Iterator[dict[str, str]]:
    for line in path.read_text().splitlines():
        yield json.loads(line)


def _words(found: IndexMatches) -> Ranking:
    return [key for key, _ in found.words]


def _vectors(found: IndexMatches) -> Ranking:
    return [key for key, _ in found.vectors or ()]


def _rrf(found: IndexMatches) -> Ranking:
    return _reciprocal_ranks(_words(found), _vectors(found))


def _reciprocal_ranks(*rankings: Ranking) -> Ranking:
    scores: dict[int, float] = {}
    for ranking in rankings:
        for rank, key in enumerate(ranking, 1):
            scores[key] = scores.get(key, 0.0) + 1 / (RRF_K + rank)
    return ranked_keys(scores, min_score=0.0, limit=CUT)


def _fused(weight: float) -> Callable[[IndexMatches], Ranking]:
    def ranker(found: IndexMatches) -> Ranking:
        scores = fuse_scores(
            found.words,
            found.vectors,
            max_word_score=found.max_word_score,
            max_distance=found.max_distance,
            word_weight=weight,
        )
        return ranked_keys(scores, min_score=0.0, limit=CUT)

    return ranker


def _score(asked: Sequence[Asked], ranker: Callable[[IndexMatches], Ranking]) -> float:
    """Return the mean nDCG@10."""
    return mean(_ndcg(ranker(one.found)[:CUT], one.gains) for one in asked)


def _ndcg(ranking: Ranking, gains: Gains) -> float:
    ideal = _discounted(sorted(gains.values(), reverse=True)[:CUT])
    return _discounted([gains.get(key, 0) for key in ranking]) / ideal if ideal else 0.0


def _discounted(gains: Sequence[int]) -> float:
    return sum(gain / log2(place + 1) for place, gain in enumerate(gains, 1))


if __name__ == "__main__":
    main()
