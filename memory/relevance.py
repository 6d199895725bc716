"""How relevant a text is for a question: by its words (BM25), and by words and vectors together."""

import re
from collections.abc import Sequence
from math import log

K1 = 1.2
B = 0.75
TYPICAL_LENGTH = 60.0
"""Stands for BM25's average length. A constant keeps the impacts of one entry independent of all
others."""

WORD_WEIGHT = 1.0
"""Weight of the share of the query that the words match, against the similarity of the vectors;
chosen on public data, see `docs/why/memory.md`."""

MAX_QUERY_WORDS = 24
_MAX_WORD_LENGTH = 40
_MAX_WORDS = 2_000
_MAX_CHARACTERS = _MAX_WORDS * 10

_IDEOGRAPH = "[぀-ヿ㐀-鿿가-힣]"
_WORD = re.compile(rf"{_IDEOGRAPH}|[^\W_]+")
_COMMON_WORDS = (
    "a an and are as at be by can do does for from has have how i if in into is it its me my of "
    "on or our so that the their them then there these this to up was we what when where which "
    "who will with you your"
)
_STOP_WORDS = frozenset(_COMMON_WORDS.split())
_ENDINGS = (("ies", "y"), ("ing", ""), ("edly", ""), ("ed", ""), ("ly", ""), ("es", ""), ("s", ""))


def tokenize(text: str) -> list[str]:
    """Return the word stems of a text; each Chinese, Japanese or Korean character is a word."""
    found = _WORD.findall(text[:_MAX_CHARACTERS].lower())[:_MAX_WORDS]
    return [_stem(word[:_MAX_WORD_LENGTH]) for word in found if word not in _STOP_WORDS]


def query_words(text: str) -> list[str]:
    """Return the first distinct word stems of a query."""
    return list(dict.fromkeys(tokenize(text)))[:MAX_QUERY_WORDS]


def inverse_frequency(count: float, total: int) -> float:
    """Return the weight of a word that `count` of `total` texts have."""
    return log(1 + (max(0, total - count) + 0.5) / (count + 0.5))


def impact(count: float, length: float) -> float:
    """Return a text's part of the BM25 score of a word, which it has `count` of `length` times."""
    return count * (K1 + 1) / (count + K1 * (1 - B + B * length / TYPICAL_LENGTH))


def fuse_scores(
    words: Sequence[tuple[int, float]],
    vectors: Sequence[tuple[int, float]] | None,
    *,
    max_word_score: float,
    max_distance: float,
    word_weight: float = WORD_WEIGHT,
) -> dict[int, float]:
    """Combine BM25 scores and cosine distances to one relevance, 0 to 1, for each playbook.

    It is the weighted mean of the similarity and of the share of the query that the words match.
    That share is scaled by the ratio to the best share, so that playbooks with a part of the words
    stand back behind one that has them all. A playbook missing in `vectors` is taken to be at
    `max_distance`.
    """
    best = max((score for _, score in words), default=0.0)
    matched = {key: score / best * (score / max_word_score) for key, score in words if best}
    if vectors is None:
        return matched
    near = {key: min(1.0, max(0.0, 1 - distance)) for key, distance in vectors}
    floor = max(0.0, 1 - max_distance)
    return {
        key: (near.get(key, floor) + word_weight * matched.get(key, 0.0)) / (1 + word_weight)
        for key in near.keys() | matched.keys()
    }


def _stem(word: str) -> str:
    for ending, replacement in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            stem = word[: -len(ending)] + replacement
            doubled = len(stem) > 3 and stem[-1] == stem[-2] and stem[-1] not in "lsz"
            return stem[:-1] if doubled else stem.removesuffix("e")
    return word.removesuffix("e") if len(word) > 3 else word
