"""Text to word stems with BM25 weights (pure): light stemming, no stop words."""

import re
from collections import Counter

from memory.types import PlaybookContent

K1 = 1.2
B = 0.75
TYPICAL_LENGTH = 60.0
"""Stands for BM25's average length. A constant keeps the impacts of one playbook independent of
all others."""

MAX_QUERY_WORDS = 24
_MAX_WORD_LENGTH = 40
_MAX_WORDS = 2_000
_WORD = re.compile(r"[぀-ヿ㐀-鿿가-힣]|[^\W_]+")
_COMMON_WORDS = (
    "a an and are as at be by can do does for from has have how i if in into is it its me my of "
    "on or our so that the their them then there these this to up was we what when where which "
    "who will with you your"
)
_STOP_WORDS = frozenset(_COMMON_WORDS.split())
_ENDINGS = (("ies", "y"), ("ing", ""), ("edly", ""), ("ed", ""), ("ly", ""), ("es", ""), ("s", ""))


def tokenize(text: str) -> list[str]:
    """Return the word stems of a text; each Chinese, Japanese or Korean character is a word."""
    found = _WORD.findall(text[: _MAX_WORDS * 10].lower())[:_MAX_WORDS]
    return [_stem(word[:_MAX_WORD_LENGTH]) for word in found if word not in _STOP_WORDS]


def query_words(text: str) -> list[str]:
    """Return the first distinct word stems of a query."""
    return list(dict.fromkeys(tokenize(text)))[:MAX_QUERY_WORDS]


def word_impacts(content: PlaybookContent) -> dict[str, float]:
    """Return each word of a playbook with the document's part of its BM25 score.

    A word counts three times in the title, twice in use case, category and tags, once elsewhere.
    """
    steps = " ".join(f"{step.action} {step.tool} {step.expected}" for step in content.steps)
    weighted_texts = (
        (3, content.title),
        (2, f"{content.use_case} {content.category} {' '.join(content.tags)}"),
        (1, f"{content.process} {steps}"),
    )
    counts: Counter[str] = Counter()
    for weight, text in weighted_texts:
        for word in tokenize(text):
            counts[word] += weight
    length = B * counts.total() / TYPICAL_LENGTH
    return {
        word: round(count * (K1 + 1) / (count + K1 * (1 - B + length)), 4)
        for word, count in counts.items()
    }


def _stem(word: str) -> str:
    for ending, replacement in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            stem = word[: -len(ending)] + replacement
            doubled = len(stem) > 3 and stem[-1] == stem[-2] and stem[-1] not in "lsz"
            return stem[:-1] if doubled else stem.removesuffix("e")
    return word.removesuffix("e") if len(word) > 3 else word
