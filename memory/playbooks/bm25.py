"""Search for playbooks by BM25 over the table `words`: the same on SQLite and Postgres.

Only the `MAX_PLAYBOOKS_PER_WORD` playbooks with the highest impact are read for each word, and
the frequency of a more common word is estimated. Below that number the scores are exact. Words
count as frequent by all entries, notes and examples too.
"""

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

from memory.entries import IS_PLAYBOOK
from memory.playbooks.store import filter_conditions
from memory.relevance import K1, inverse_frequency
from memory.tables import entries, entry_words
from memory.types import PlaybookFilter

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

    The store holds `among` entries, with keys up to `last_key`.
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
    """Return each word's inverse document frequency, and whether any entry has the word."""
    values = {f"word{number}": word for number, word in enumerate(query)}
    rows = connection.execute(_counted(len(query)), values)
    frequencies = {row.word: _frequency(row.number, row.last, last_key) for row in rows}
    return {word: (inverse_frequency(n, total), n > 0) for word, n in frequencies.items()}


def _frequency(number: int, last: int | None, last_key: int) -> float:
    """Estimate how many entries have a word, from the density among the first of them."""
    if last is None or number < MAX_PLAYBOOKS_PER_WORD:
        return number
    return number * last_key / last


# Statements are cached by shape: building one in SQLAlchemy takes longer than running it.
@lru_cache(maxsize=256)
def _ranked(count: int, where: PlaybookFilter) -> "Select[tuple[int, float]]":
    parts = [select(_scores_of_word(number, where).subquery()) for number in range(count)]
    found = union_all(*parts).subquery()
    score = func.sum(found.c.score).label("score")
    ranked = select(found.c.entry_key, score).group_by(found.c.entry_key)
    return ranked.order_by(score.desc(), found.c.entry_key).limit(bindparam("limit"))


def _scores_of_word(number: int, where: PlaybookFilter) -> "Select[tuple[int, float]]":
    columns = entry_words.c
    weight = bindparam(f"weight{number}", type_=Float)
    query = select(columns.entry_key, (columns.impact * weight).label("score"))
    query = query.join(entries, entries.c.key == columns.entry_key)
    query = query.where(
        columns.word == bindparam(f"word{number}"), IS_PLAYBOOK, *filter_conditions(where)
    )
    return query.order_by(columns.impact.desc()).limit(MAX_PLAYBOOKS_PER_WORD)


@lru_cache(maxsize=64)
def _counted(count: int) -> "CompoundSelect[tuple[str, int, int]]":
    return union_all(*(select(_count_of_word(number).subquery()) for number in range(count)))


def _count_of_word(number: int) -> "Select[tuple[str, int, int]]":
    word = bindparam(f"word{number}", type_=String)
    keys = select(entry_words.c.entry_key).where(entry_words.c.word == word)
    first = keys.order_by(entry_words.c.entry_key).limit(MAX_PLAYBOOKS_PER_WORD).subquery()
    return select(
        word.label("word"),
        func.count().label("number"),
        func.max(first.c.entry_key).label("last"),
    ).select_from(first)
