"""BM25 over the words table: the same on SQLite and Postgres, at a cost that stays bounded.

A word that many playbooks hold is rare news: of such a word only the playbooks that it says
most about are read, and its frequency is estimated. Below `MOST` playbooks a word all is exact.
"""

from collections.abc import Sequence
from functools import lru_cache
from math import log
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
from memory.tables import playbook_words, playbooks
from memory.types import PlaybookFilter
from memory.words import K1

MAX_PLAYBOOKS_PER_WORD = 1_000
"""Playbooks read for each word of a query."""

MIN_WEIGHT_SHARE = 0.01
"""A word that weighs less than this share of its query is not read: all playbooks hold it."""


class WordMatches(NamedTuple):
    """Keys of playbooks and their BM25 scores, best first; and the best score possible."""

    scores: list[tuple[int, float]]
    max_score: float


def search_words(
    connection: Connection,
    query: Sequence[str],
    where: PlaybookFilter,
    *,
    among: int,
    limit: int,
) -> WordMatches:
    """The playbooks that the query's words speak for; the store holds `among` of them."""
    weights = _weights(connection, query, among) if query else {}
    total = sum(weight for weight, _ in weights.values())
    heard = {
        w: weight
        for w, (weight, held) in weights.items()
        if held and weight > MIN_WEIGHT_SHARE * total
    }
    if not heard:
        return WordMatches([], 0.0)
    given: dict[str, object] = {"limit": limit}
    for number, (word, weight) in enumerate(heard.items()):
        given |= {f"word{number}": word, f"weight{number}": weight}
    rows = connection.execute(_ranked(len(heard), where), given).all()
    return WordMatches([(key, float(score)) for key, score in rows], (K1 + 1) * total)


def _weights(
    connection: Connection, query: Sequence[str], total: int
) -> dict[str, tuple[float, bool]]:
    """Each word's inverse document frequency, and whether any playbook holds it."""
    given = {f"word{number}": word for number, word in enumerate(query)}
    rows = connection.execute(_counted(len(query)), given)
    held = {row.word: _frequency(row.number, row.last, total) for row in rows}
    return {word: (log(1 + (total - n + 0.5) / (n + 0.5)), n > 0) for word, n in held.items()}


def _frequency(number: int, last: int | None, total: int) -> float:
    """Exact below `MOST`; above, as dense among all playbooks as among the first."""
    return number if last is None or number < MAX_PLAYBOOKS_PER_WORD else number * total / last


# Statements are made once for each shape: making one takes longer than running it.
@lru_cache(maxsize=256)
def _ranked(count: int, where: PlaybookFilter) -> "Select[tuple[int, float]]":
    parts = [select(_part(number, where).subquery()) for number in range(count)]
    found = union_all(*parts).subquery()
    score = func.sum(found.c.score).label("score")
    ranked = select(found.c.playbook_key, score).group_by(found.c.playbook_key)
    return ranked.order_by(score.desc(), found.c.playbook_key).limit(bindparam("limit"))


def _part(number: int, where: PlaybookFilter) -> "Select[tuple[int, float]]":
    weight = bindparam(f"weight{number}", type_=Float)
    part = select(playbook_words.c.playbook_key, (playbook_words.c.impact * weight).label("score"))
    part = part.join(playbooks, playbooks.c.key == playbook_words.c.playbook_key)
    part = part.where(
        playbook_words.c.word == bindparam(f"word{number}"), *filter_conditions(where)
    )
    return part.order_by(playbook_words.c.impact.desc()).limit(MAX_PLAYBOOKS_PER_WORD)


@lru_cache(maxsize=64)
def _counted(count: int) -> "CompoundSelect[tuple[str, int, int]]":
    return union_all(*(select(_count(number).subquery()) for number in range(count)))


def _count(number: int) -> "Select[tuple[str, int, int]]":
    word = bindparam(f"word{number}", type_=String)
    seen = select(playbook_words.c.playbook_key).where(playbook_words.c.word == word)
    first = seen.order_by(playbook_words.c.playbook_key).limit(MAX_PLAYBOOKS_PER_WORD).subquery()
    return select(
        word.label("word"),
        func.count().label("number"),
        func.max(first.c.playbook_key).label("last"),
    ).select_from(first)
