"""Text as words for BM25 (pure): stemmed lightly, stop words dropped, each with its impact."""

import re
from collections import Counter

from memory.types import PlaybookContent

K1 = 1.2
B = 0.75
TYPICAL_LENGTH = 60.0
"""BM25's average length, held fixed so that one playbook's impacts never depend on the others."""

MAX_QUERY_WORDS = 24
_LONGEST = 40
_MOST = 2_000
_WORD = re.compile(r"[぀-ヿ㐀-鿿가-힣]|[^\W_]+")
_STOP_WORDS = (
    "a an and are as at be by can do does for from has have how i if in into is it its me my of "
    "on or our so that the their them then there these this to up was we what when where which "
    "who will with you your"
)
_STOP = frozenset(_STOP_WORDS.split())
_ENDINGS = (("ies", "y"), ("ing", ""), ("edly", ""), ("ed", ""), ("ly", ""), ("es", ""), ("s", ""))


def tokenize(text: str) -> list[str]:
    """The words of a text, each cut to its stem; scripts without spaces give single signs."""
    found = (_WORD.findall(text[: _MOST * 10].lower()))[:_MOST]
    return [_stem(word[:_LONGEST]) for word in found if word not in _STOP]


def query_words(text: str) -> list[str]:
    """The first distinct words of a query."""
    return list(dict.fromkeys(tokenize(text)))[:MAX_QUERY_WORDS]


def word_impacts(content: PlaybookContent) -> dict[str, float]:
    """Each word of a playbook and BM25's share that does not depend on other playbooks.

    A word in the title weighs three times, in use case and tags twice, elsewhere once.
    """
    counts: Counter[str] = Counter()
    for weight, text in _fields(content):
        for word in tokenize(text):
            counts[word] += weight
    length = B * counts.total() / TYPICAL_LENGTH
    return {
        word: round(count * (K1 + 1) / (count + K1 * (1 - B + length)), 4)
        for word, count in counts.items()
    }


def _fields(content: PlaybookContent) -> list[tuple[int, str]]:
    steps = " ".join(f"{step.action} {step.tool} {step.expected}" for step in content.steps)
    return [
        (3, content.title),
        (2, f"{content.use_case} {content.category} {' '.join(content.tags)}"),
        (1, f"{content.process} {steps}"),
    ]


def _stem(word: str) -> str:
    for ending, instead in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            stem = word[: -len(ending)] + instead
            doubled = len(stem) > 3 and stem[-1] == stem[-2] and stem[-1] not in "lsz"
            return stem[:-1] if doubled else stem.removesuffix("e")
    return word.removesuffix("e") if len(word) > 3 else word
