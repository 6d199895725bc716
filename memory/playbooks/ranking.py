"""Two ranked lists become one, confidence is blended in, and the result is told apart (pure)."""

from collections.abc import Mapping, Sequence

from memory.confidence import is_failing
from memory.types import ArmRank, GroupThresholds, OutcomeCounts, ResultGroup

WORD_WEIGHT = 2.0
"""What a word score of 1 would add to a similarity of 0 to 1 if no vector were near at all."""

MIN_WORD_WEIGHT = 0.02
"""The least that it adds: of playbooks that are equally near, words tell which is meant."""

WORD_WEIGHT_DECAY = 4
"""How fast words lose that weight as the nearest vector comes near; `docs/why/memory.md`."""


def fuse_scores(
    words: Sequence[tuple[int, float]],
    vectors: Sequence[tuple[int, float]] | None,
    *,
    max_word_score: float,
    max_distance: float,
) -> dict[int, float]:
    """One relevance, 0 to 1, of BM25 scores and cosine distances.

    `most` is BM25's best possible; what vectors did not name is no nearer than `farthest`.

    Words count by how much of the query they cover, so that one shared word by chance weighs
    little, and the less the nearer the nearest vector is. Reciprocal rank fusion takes a chance
    rank for as good as a sure one: of paraphrased questions it found less than half as many as
    this (`benchmarks/memory/retrieval.py`).
    """
    covered = {key: score / max_word_score for key, score in words} if max_word_score else {}
    if vectors is None:
        return covered
    near = {key: min(1.0, max(0.0, 1 - distance)) for key, distance in vectors}
    floor = max(0.0, 1 - max_distance)
    nearest = max(near.values(), default=floor)
    weight = max(MIN_WORD_WEIGHT, WORD_WEIGHT * (1 - nearest) ** WORD_WEIGHT_DECAY)
    return {
        key: (near.get(key, floor) + weight * covered.get(key, 0.0)) / (1 + weight)
        for key in near.keys() | covered.keys()
    }


def blend_confidence(
    relevance: Mapping[int, float], confidence: Mapping[int, float], weight: float
) -> dict[int, float]:
    """Relevance spread over 0 to 1, then mixed with confidence; weight 0 changes nothing.

    This comes before the cut to a limit, so that confidence can pull a playbook in.
    """
    if weight == 0 or not relevance:
        return dict(relevance)
    low, high = min(relevance.values()), max(relevance.values())
    return {
        key: (1 - weight) * ((score - low) / (high - low) if high > low else 1.0)
        + weight * confidence[key]
        for key, score in relevance.items()
    }


def ranked_keys(scores: Mapping[int, float], *, min_score: float, limit: int) -> list[int]:
    """Keys from the best down; equals in the order in which they were made."""
    kept = [key for key, score in scores.items() if score >= min_score]
    return sorted(kept, key=lambda key: (-round(scores[key], 9), key))[:limit]


def arm_ranks(found: Sequence[tuple[int, float]]) -> dict[int, ArmRank]:
    """What each arm said of each key."""
    return {key: ArmRank(rank, score) for rank, (key, score) in enumerate(found, 1)}


def result_group(
    counts: OutcomeCounts, recent: OutcomeCounts, contrast: GroupThresholds
) -> ResultGroup:
    """The group that a playbook is shown in. Playbooks of every group are shown and credited.

    `counts` are of all its executions, `recent` of the latest `confidence.RECENT`. What fails
    lately is failed, however good it was before.
    """
    if is_failing(recent.succeeded, recent.failures) and recent.confidence <= contrast.failed_max:
        return "failed"
    if counts.confidence >= contrast.proven_min:
        return "proven"
    return "mixed" if counts.failures else "untested"
