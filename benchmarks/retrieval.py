"""Retrieval on public data: `python -m benchmarks.retrieval --data FOLDER`.

FOLDER holds one folder for each set, in the format of BEIR: `corpus.jsonl` (`_id`, `title`, `text`,
and `use_case` if a set has one), `queries.jsonl` (`_id`, `text`) and `qrels/test.tsv`. Each text is
stored as a playbook and each query searched with the product's own index and fusion. The weight of
the words is chosen for each set on the others.
"""

import argparse
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import log2
from pathlib import Path
from statistics import mean
from typing import NamedTuple

from memory.playbooks.index import IndexMatches
from memory.playbooks.library import open_library
from memory.playbooks.search import MATCHES_PER_ARM, WORD_WEIGHT, fuse_scores, ranked_keys
from memory.types import Embedder, PlaybookContent, PlaybookFilter
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
            gains: dict[str, dict[int, int]] = {query: {} for query in queries}
            for line in (folder / "qrels" / "test.tsv").read_text().splitlines()[1:]:
                query, text, score = line.split("\t")
                gains[query][keys[text]] = int(score)
            return [
                Asked(
                    library.index.search(
                        text, PlaybookFilter(), depth=MATCHES_PER_ARM, max_distance=2.0
                    ),
                    gains[query],
                )
                for query, text in queries.items()
            ]


def _lines(path: Path) -> Iterator[dict[str, str]]:
    for line in path.read_text().splitlines():
        yield json.loads(line)


def _words(found: IndexMatches) -> Ranking:
    return [key for key, _ in found.words]


def _vectors(found: IndexMatches) -> Ranking:
    return [key for key, _ in found.vectors or ()]


def _rrf(found: IndexMatches) -> Ranking:
    scores: dict[int, float] = {}
    for ranking in (_words(found), _vectors(found)):
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
