"""BM25 over the table `words`: the same on SQLite and Postgres.

Only the `MAX_PLAYBOOKS_PER_WORD` playbooks with the highest impact are read for each word, and
the frequency of a more common word is estimated. Below that number the scores are exact.
"""

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from sqlalchemy import (
    CompoundSelect,
    Connection,
    Float,
    Select,
    String,
    bindparam,
    func,
    select,
    union_all,
)

from memory.playbooks.store import filter_conditions
from memory.relevance import K1, impact, inverse_frequency, tokenize
from memory.tables import entries, playbook_words
from memory.types import PlaybookContent, PlaybookFilter

MAX_PLAYBOOKS_PER_WORD = 1_000

MIN_WEIGHT_SHARE = 0.01
"""Words below this share of the query's weight are skipped: nearly every playbook has them."""


class WordMatches(NamedTuple):
    """Playbook keys with BM25 scores, best first, and the highest possible score."""

    scores: list[tuple[int, float]]
    max_score: float


def search_words(
    connection: Connection,
    query: Sequence[str],
    where: PlaybookFilter,
    *,
    among: int,
    last_key: int,
    limit: int,
) -> WordMatches:
    """Return the best playbooks for these words.

    The store holds `among` playbooks, with keys up to `last_key`.
    """
    weights = _weights(connection, query, among, last_key) if query else {}
    total = sum(weight for weight, _ in weights.values())
    used = {
        word: weight
        for word, (weight, exists) in weights.items()
        if exists and weight > MIN_WEIGHT_SHARE * total
    }
    if not used:
        return WordMatches([], 0.0)
    values: dict[str, object] = {"limit": limit}
    for number, (word, weight) in enumerate(used.items()):
        values |= {f"word{number}": word, f"weight{number}": weight}
    rows = connection.execute(_ranked(len(used), where), values).all()
    return WordMatches([(key, float(score)) for key, score in rows], (K1 + 1) * total)


def _weights(
    connection: Connection, query: Sequence[str], total: int, last_key: int
) -> dict[str, tuple[float, bool]]:
    """Return each word's inverse document frequency, and whether any playbook has the word."""
    values = {f"word{number}": word for number, word in enumerate(query)}
    rows = connection.execute(_counted(len(query)), values)
    frequencies = {row.word: _frequency(row.number, row.last, last_key) for row in rows}
    return {word: (inverse_frequency(n, total), n > 0) for word, n in frequencies.items()}


def _frequency(number: int, last: int | None, last_key: int) -> float:
    """Estimate how many playbooks have a word, from the density among the first of them."""
    if last is None or number < MAX_PLAYBOOKS_PER_WORD:
        return number
    return number * last_key / last


# Statements are cached by shape: building one in SQLAlchemy takes longer than running it.
@lru_cache(maxsize=256)
def _ranked(count: int, where: PlaybookFilter) -> "Select[tuple[int, float]]":
    parts = [select(_scores_of_word(number, where).subquery()) for number in range(count)]
    found = union_all(*parts).subquery()
    score = func.sum(found.c.score).label("score")
    ranked = select(found.c.playbook_key, score).group_by(found.c.playbook_key)
    return ranked.order_by(score.desc(), found.c.playbook_key).limit(bindparam("limit"))


def _scores_of_word(number: int, where: PlaybookFilter) -> "Select[tuple[int, float]]":
    columns = playbook_words.c
    weight = bindparam(f"weight{number}", type_=Float)
    query = select(columns.playbook_key, (columns.impact * weight).label("score"))
    query = query.join(entries, entries.c.key == columns.playbook_key)
    query = query.where(columns.word == bindparam(f"word{number}"), *filter_conditions(where))
    return query.order_by(columns.impact.desc()).limit(MAX_PLAYBOOKS_PER_WORD)


@lru_cache(maxsize=64)
def _counted(count: int) -> "CompoundSelect[tuple[str, int, int]]":
    return union_all(*(select(_count_of_word(number).subquery()) for number in range(count)))


def _count_of_word(number: int) -> "Select[tuple[str, int, int]]":
    word = bindparam(f"word{number}", type_=String)
    keys = select(playbook_words.c.playbook_key).where(playbook_words.c.word == word)
    first = keys.order_by(playbook_words.c.playbook_key).limit(MAX_PLAYBOOKS_PER_WORD).subquery()
    return select(
        word.label("word"),
        func.count().label("number"),
        func.max(first.c.playbook_key).label("last"),
    ).select_from(first)


def word_impacts(content: PlaybookContent, lessons: Sequence[str] = ()) -> dict[str, float]:
    """Return each word of a playbook with the document's part of its BM25 score.

    A word counts three times in the title, twice in use case, category and tags, once elsewhere.
    """
    steps = " ".join(f"{step.action} {step.tool} {step.expected}" for step in content.steps)
    weighted_texts = (
        (3, content.title),
        (2, f"{content.use_case} {content.category} {' '.join(content.tags)}"),
        (1, f"{content.process} {steps} {' '.join(lessons)}"),
    )
    counts: Counter[str] = Counter()
    for weight, text in weighted_texts:
        for word in tokenize(text):
            counts[word] += weight
    length = counts.total()
    return {word: round(impact(count, length), 4) for word, count in counts.items()}
