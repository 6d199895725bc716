"""From what the two arms found to hits: fused, blended with confidence, cut, told apart."""

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import Connection, Engine, bindparam, select

from memory.confidence import FAILURES_NEEDED, wilson_lower_bound
from memory.database import reading
from memory.playbooks import journal, ranking, store
from memory.playbooks.failure_notes import what_failed
from memory.playbooks.index import Found, Index
from memory.tables import playbooks
from memory.types import (
    Arm,
    Contrast,
    Contrasted,
    Counts,
    Group,
    Hit,
    Lesson,
    Query,
    Vector,
)
from memory.vectors import stored_vectors

DEPTH = 50
"""Playbooks that each arm names before they are fused; more when more are asked for."""

DEEPER = 4
"""How many times as many they name when drafts have taken the places of those that are meant."""

_KNOWN = select(
    playbooks.c.key,
    playbooks.c.successes + playbooks.c.partials,
    playbooks.c.failures,
    playbooks.c.status,
    playbooks.c.source,
).where(playbooks.c.key.in_(bindparam("keys", expanding=True)))


def best(engine: Engine, index: Index, query: Query) -> list[Hit]:
    """The best playbooks, best first; of equals the one made first."""
    query = replace(query, limit=min(query.limit, store.MOST))
    depth = max(DEPTH, query.limit)
    while True:
        found = index.find(query.text, query.filter, depth=depth, max_distance=query.max_distance)
        with reading(engine) as connection:
            hits = _hits(connection, query, found, index.model)
        whole = query.filter.drafts or len(found.vectors or ()) < depth
        if whole or len(hits) >= query.limit:
            return hits
        depth *= DEEPER


def _hits(connection: Connection, query: Query, found: Found, model: str | None) -> list[Hit]:
    arms: dict[Arm, list[tuple[int, float]]] = {"words": found.words}
    if found.vectors is not None:
        arms["vectors"] = found.vectors
    relevance = ranking.fuse(found.words, found.vectors, most=found.most, farthest=found.farthest)
    confidence: dict[int, float] = {}
    if query.confidence_weight or not query.filter.drafts:
        known = connection.execute(_KNOWN, {"keys": list(relevance)})
        confidence = {
            key: wilson_lower_bound(good, failures)
            for key, good, failures, status, source in known
            if query.filter.takes(status, source)  # the vectors do not know what is a draft
        }
        # What is gone since the arms named it is gone from here too.
        relevance = {key: relevance[key] for key in relevance if key in confidence}
    scores = ranking.blend(relevance, confidence, query.confidence_weight)
    order = ranking.order(scores, min_score=query.min_score, limit=query.limit)
    there = store.by_key(connection, order)
    playbooks_ = {k: p for k, p in there.items() if query.filter.takes(p.status, p.source)}
    named = {arm: ranking.places(pairs) for arm, pairs in arms.items()}
    return [
        Hit(
            playbook=playbooks_[key],
            score=round(scores[key], 6),
            relevance=round(relevance[key], 6),
            places={arm: places[key] for arm, places in named.items() if key in places},
            lessons=_by_likeness(connection, playbooks_[key].lessons, found.vector, model),
        )
        for key in order
        if key in playbooks_
    ]


def grouped(
    connection: Connection, query: Query, found: Sequence[Hit], contrast: Contrast
) -> Contrasted:
    """The hits in their groups, at most `query.limit` in each."""
    may_fail = [h.playbook.key for h in found if h.playbook.counts.failures >= FAILURES_NEEDED]
    recent = journal.recent_counts(connection, may_fail)
    groups: dict[Group, list[Hit]] = {group: [] for group in Contrasted(query="").groups}
    for hit in found:
        latest = recent.get(hit.playbook.key, Counts())
        groups[ranking.group(hit.playbook.counts, latest, contrast)].append(hit)
    return Contrasted(
        query=query.text, **{group: tuple(hits[: query.limit]) for group, hits in groups.items()}
    )


def in_full(connection: Connection, found: Contrasted) -> Contrasted:
    """The same, with what failed where it is to be avoided, and whether anybody but a person wrote
    any of it."""
    others = store.written_by_others(connection, [hit.playbook.key for hit in found.hits])

    def marked(hit: Hit) -> Hit:
        by_run = any(lesson.run_id for lesson in hit.playbook.lessons)
        return replace(hit, tainted=hit.tainted or by_run or hit.playbook.key in others)

    def avoided(hit: Hit) -> Hit:
        failures = what_failed(connection, hit.playbook.key)
        return replace(hit, what_failed=failures.said, tainted=failures.by_run)

    return replace(
        found,
        proven=tuple(map(marked, found.proven)),
        mixed=tuple(map(marked, found.mixed)),
        untested=tuple(map(marked, found.untested)),
        failed=tuple(marked(avoided(hit)) for hit in found.failed),
    )


def _by_likeness(
    connection: Connection, taught: Sequence[Lesson], query: Vector | None, model: str | None
) -> tuple[str, ...]:
    """Lessons that fit the query first; without vectors, and among equals, the newest first."""
    newest = sorted(taught, key=lambda lesson: -lesson.id)
    if query is not None and model is not None and len(newest) > 1:
        kept = stored_vectors.lesson_vectors(connection, [lesson.id for lesson in newest], model)
        newest.sort(key=lambda e: -_cosine(kept[e.id], query) if e.id in kept else 1.0)
    return tuple(lesson.text for lesson in newest)


def _cosine(a: Vector, b: Vector) -> float:
    import numpy as np

    one, other = np.asarray(a), np.asarray(b)
    length = float(np.linalg.norm(one) * np.linalg.norm(other))
    return float(one @ other) / length if length and len(one) == len(other) else 0.0
