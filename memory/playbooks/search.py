"""From what the two arms found to hits: fused, blended with confidence, cut, told apart."""

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import Connection, Engine, bindparam, select

from memory.confidence import MIN_FAILURES, wilson_lower_bound
from memory.database import read_transaction
from memory.playbooks import journal, ranking, store
from memory.playbooks.failure_notes import failure_texts
from memory.playbooks.index import IndexMatches, PlaybookIndex
from memory.tables import playbooks
from memory.types import (
    GroupedResults,
    GroupThresholds,
    Lesson,
    OutcomeCounts,
    PlaybookQuery,
    ResultGroup,
    SearchArm,
    SearchResult,
    Vector,
)
from memory.vectors import stored_vectors

MATCHES_PER_ARM = 50
"""Playbooks that each arm names before they are fused; more when more are asked for."""

DEPTH_FACTOR = 4
"""How many times as many they name when drafts have taken the places of those that are meant."""

_KNOWN = select(
    playbooks.c.key,
    playbooks.c.successes + playbooks.c.partials,
    playbooks.c.failures,
    playbooks.c.status,
    playbooks.c.source,
).where(playbooks.c.key.in_(bindparam("keys", expanding=True)))


def search_playbooks(
    engine: Engine, index: PlaybookIndex, query: PlaybookQuery
) -> list[SearchResult]:
    """The best playbooks, best first; of equals the one made first."""
    query = replace(query, limit=min(query.limit, store.MAX_LISTED))
    depth = max(MATCHES_PER_ARM, query.limit)
    while True:
        found = index.search(query.text, query.filter, depth=depth, max_distance=query.max_distance)
        with read_transaction(engine) as connection:
            hits = _hits(connection, query, found, index.model)
        whole = query.filter.drafts or len(found.vectors or ()) < depth
        if whole or len(hits) >= query.limit:
            return hits
        depth *= DEPTH_FACTOR


def _hits(
    connection: Connection, query: PlaybookQuery, found: IndexMatches, model: str | None
) -> list[SearchResult]:
    arms: dict[SearchArm, list[tuple[int, float]]] = {"words": found.words}
    if found.vectors is not None:
        arms["vectors"] = found.vectors
    relevance = ranking.fuse_scores(
        found.words,
        found.vectors,
        max_word_score=found.max_word_score,
        max_distance=found.max_distance,
    )
    confidence: dict[int, float] = {}
    if query.confidence_weight or not query.filter.drafts:
        known = connection.execute(_KNOWN, {"keys": list(relevance)})
        confidence = {
            key: wilson_lower_bound(good, failures)
            for key, good, failures, status, source in known
            if query.filter.matches(status, source)  # the vectors do not know what is a draft
        }
        # What is gone since the arms named it is gone from here too.
        relevance = {key: relevance[key] for key in relevance if key in confidence}
    scores = ranking.blend_confidence(relevance, confidence, query.confidence_weight)
    order = ranking.ranked_keys(scores, min_score=query.min_score, limit=query.limit)
    there = store.by_key(connection, order)
    playbooks_ = {k: p for k, p in there.items() if query.filter.matches(p.status, p.source)}
    named = {arm: ranking.arm_ranks(pairs) for arm, pairs in arms.items()}
    return [
        SearchResult(
            playbook=playbooks_[key],
            score=round(scores[key], 6),
            relevance=round(relevance[key], 6),
            arm_ranks={arm: places[key] for arm, places in named.items() if key in places},
            lessons=_by_likeness(connection, playbooks_[key].lessons, found.query_vector, model),
        )
        for key in order
        if key in playbooks_
    ]


def group_results(
    connection: Connection,
    query: PlaybookQuery,
    found: Sequence[SearchResult],
    contrast: GroupThresholds,
) -> GroupedResults:
    """The hits in their groups, at most `query.limit` in each."""
    may_fail = [h.playbook.key for h in found if h.playbook.counts.failures >= MIN_FAILURES]
    recent = journal.recent_counts(connection, may_fail)
    groups: dict[ResultGroup, list[SearchResult]] = {
        group: [] for group in GroupedResults(query="").groups
    }
    for hit in found:
        latest = recent.get(hit.playbook.key, OutcomeCounts())
        groups[ranking.result_group(hit.playbook.counts, latest, contrast)].append(hit)
    return GroupedResults(
        query=query.text, **{group: tuple(hits[: query.limit]) for group, hits in groups.items()}
    )


def add_failures(connection: Connection, found: GroupedResults) -> GroupedResults:
    """The same, with what failed where it is to be avoided, and whether anybody but a person wrote
    any of it."""
    others = store.written_by_others(connection, [hit.playbook.key for hit in found.hits])

    def marked(hit: SearchResult) -> SearchResult:
        by_run = any(lesson.run_id for lesson in hit.playbook.lessons)
        return replace(hit, has_run_text=hit.has_run_text or by_run or hit.playbook.key in others)

    def avoided(hit: SearchResult) -> SearchResult:
        failures = failure_texts(connection, hit.playbook.key)
        return replace(hit, failure_texts=failures.texts, has_run_text=failures.includes_run_text)

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
        kept = stored_vectors.load_lesson_vectors(
            connection, [lesson.id for lesson in newest], model
        )
        newest.sort(key=lambda e: -_cosine(kept[e.id], query) if e.id in kept else 1.0)
    return tuple(lesson.text for lesson in newest)


def _cosine(a: Vector, b: Vector) -> float:
    import numpy as np

    one, other = np.asarray(a), np.asarray(b)
    length = float(np.linalg.norm(one) * np.linalg.norm(other))
    return float(one @ other) / length if length and len(one) == len(other) else 0.0
