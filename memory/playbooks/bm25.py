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

from memory.playbooks.store import conditions
from memory.tables import playbooks, words
from memory.types import Filter
from memory.words import K1

MOST = 1_000
"""Playbooks read for each word of a query."""

SILENT = 0.01
"""A word that weighs less than this share of its query is not read: all playbooks hold it."""


class Spoken(NamedTuple):
    """Keys of playbooks and their BM25 scores, best first; and the best score possible."""

    found: list[tuple[int, float]]
    most: float


def best(
    connection: Connection, query: Sequence[str], where: Filter, *, among: int, limit: int
) -> Spoken:
    """The playbooks that the query's words speak for; the store holds `among` of them."""
    weights = _weights(connection, query, among) if query else {}
    total = sum(weight for weight, _ in weights.values())
    heard = {w: weight for w, (weight, held) in weights.items() if held and weight > SILENT * total}
    if not heard:
        return Spoken([], 0.0)
    given: dict[str, object] = {"limit": limit}
    for number, (word, weight) in enumerate(heard.items()):
        given |= {f"word{number}": word, f"weight{number}": weight}
    rows = connection.execute(_ranked(len(heard), where), given).all()
    return Spoken([(key, float(score)) for key, score in rows], (K1 + 1) * total)


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
    return number if last is None or number < MOST else number * total / last


# Statements are made once for each shape: making one takes longer than running it.
@lru_cache(maxsize=256)
def _ranked(count: int, where: Filter) -> "Select[tuple[int, float]]":
    parts = [select(_part(number, where).subquery()) for number in range(count)]
    found = union_all(*parts).subquery()
    score = func.sum(found.c.score).label("score")
    ranked = select(found.c.playbook_key, score).group_by(found.c.playbook_key)
    return ranked.order_by(score.desc(), found.c.playbook_key).limit(bindparam("limit"))


def _part(number: int, where: Filter) -> "Select[tuple[int, float]]":
    weight = bindparam(f"weight{number}", type_=Float)
    part = select(words.c.playbook_key, (words.c.impact * weight).label("score"))
    part = part.join(playbooks, playbooks.c.key == words.c.playbook_key)
    part = part.where(words.c.word == bindparam(f"word{number}"), *conditions(where))
    return part.order_by(words.c.impact.desc()).limit(MOST)


@lru_cache(maxsize=64)
def _counted(count: int) -> "CompoundSelect[tuple[str, int, int]]":
    return union_all(*(select(_count(number).subquery()) for number in range(count)))


def _count(number: int) -> "Select[tuple[str, int, int]]":
    word = bindparam(f"word{number}", type_=String)
    seen = select(words.c.playbook_key).where(words.c.word == word)
    first = seen.order_by(words.c.playbook_key).limit(MOST).subquery()
    return select(
        word.label("word"),
        func.count().label("number"),
        func.max(first.c.playbook_key).label("last"),
    ).select_from(first)
