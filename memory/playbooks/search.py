"""Playbook search: fuse both arms, blend in confidence, cut to the limit, and group results."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from sqlalchemy import Connection, Engine, bindparam, func, select

from memory.database import read_transaction
from memory.playbooks import executions, store
from memory.playbooks.index import IndexMatches, PlaybookIndex
from memory.tables import lessons as lesson_table
from memory.tables import playbooks
from memory.types import (
    ArmRank,
    GroupedResults,
    GroupThresholds,
    Lesson,
    OutcomeCounts,
    PlaybookFilter,
    PlaybookQuery,
    PlaybookStatus,
    ResultGroup,
    SearchArm,
    SearchResult,
    Vector,
    wilson_lower_bound,
)
from memory.vectors.embeddings import cosine_distances

MATCHES_PER_ARM = 50
"""Playbooks that each arm returns before they are fused, or the query's limit if that is more."""

DEPTH_FACTOR = 4
"""Factor by which an arm searches deeper when drafts took the places of reviewed playbooks."""

MIN_FAILURES = 3
"""Failures among the latest executions that a failing playbook has at least."""

MAX_FAILURES_SHOWN = 5
"""Failures that the rendering of a playbook names."""

WORD_WEIGHT = 1.0
"""Weight of the share of the query that the words match, against the similarity of the vectors;
chosen on public data, see `docs/why/memory.md`."""

_RATED = select(
    playbooks.c.key,
    playbooks.c.successes + playbooks.c.partials,
    playbooks.c.failures,
    playbooks.c.status,
    playbooks.c.source,
).where(playbooks.c.key.in_(bindparam("keys", expanding=True)))


def search_playbooks(
    engine: Engine, index: PlaybookIndex, query: PlaybookQuery
) -> list[SearchResult]:
    """Return the best playbooks, best first; of equal ones the oldest first."""
    query = replace(query, limit=min(query.limit, store.MAX_LISTED))
    depth = max(MATCHES_PER_ARM, query.limit)
    while True:
        found = index.search(query.text, query.filter, depth=depth, max_distance=query.max_distance)
        with read_transaction(engine) as connection:
            results = _results(connection, query, found, index.model)
        is_complete = query.filter.drafts or len(found.vectors or ()) < depth
        if is_complete or len(results) >= query.limit:
            return results
        depth *= DEPTH_FACTOR


def group_results(
    connection: Connection,
    query: PlaybookQuery,
    results: Sequence[SearchResult],
    thresholds: GroupThresholds,
) -> GroupedResults:
    """Return the results by group, at most `query.limit` in each, with failures and origin."""
    may_fail = [r.playbook.key for r in results if r.playbook.counts.failures >= MIN_FAILURES]
    recent = executions.recent_counts(connection, may_fail)
    groups: dict[ResultGroup, list[SearchResult]] = {g: [] for g in GroupedResults(query="").groups}
    for result in results:
        latest = recent.get(result.playbook.key, OutcomeCounts())
        groups[result_group(result.playbook.counts, latest, thresholds)].append(result)
    chosen = {group: found[: query.limit] for group, found in groups.items()}
    keys = [result.playbook.key for found in chosen.values() for result in found]
    by_others = store.written_by_others(connection, keys)

    def complete(group: ResultGroup, result: SearchResult) -> SearchResult:
        playbook = result.playbook
        failures = FailureTexts((), includes_run_text=False)
        if group == "failed":
            failures = failure_texts(connection, playbook.key)
        by_run = playbook.key in by_others or any(lesson.run_id for lesson in playbook.lessons)
        return replace(
            result,
            failure_texts=failures.texts,
            has_run_text=by_run or failures.includes_run_text,
        )

    return GroupedResults(
        query=query.text,
        **{group: tuple(complete(group, r) for r in found) for group, found in chosen.items()},
    )


class FailureTexts(NamedTuple):
    """Texts about the latest failures of a playbook."""

    texts: tuple[str, ...]
    includes_run_text: bool


def failure_texts(connection: Connection, key: int) -> FailureTexts:
    """Return approved texts about the latest failures, then the names of failed steps.

    The output of a step is left out: it may hold other people's data, or text meant to mislead.
    """
    latest = executions.list_executions(
        connection, key, outcome="failure", limit=MAX_FAILURES_SHOWN
    )
    found = [
        (text, e.run_id is not None) for e in latest if e.reflection for text in e.reflection.told
    ]
    steps = [step for execution in latest for step in execution.step_results]
    found += [(f"{step.name}: failure", False) for step in steps if step.outcome == "failure"]
    texts = tuple(dict.fromkeys(text for text, _ in found))[:MAX_FAILURES_SHOWN]
    return FailureTexts(texts, any(by_run for text, by_run in found if text in texts))


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
    A playbook missing in `vectors` is taken to be at `max_distance`.
    """
    matched = {key: score / max_word_score for key, score in words} if max_word_score else {}
    if vectors is None:
        return matched
    near = {key: min(1.0, max(0.0, 1 - distance)) for key, distance in vectors}
    floor = max(0.0, 1 - max_distance)
    return {
        key: (near.get(key, floor) + word_weight * matched.get(key, 0.0)) / (1 + word_weight)
        for key in near.keys() | matched.keys()
    }


def blend_confidence(
    relevance: Mapping[int, float], confidence: Mapping[int, float], weight: float
) -> dict[int, float]:
    """Scale relevance to 0 to 1 and mix it with confidence; weight 0 changes nothing.

    Done before results are cut to the limit, so that confidence can bring a playbook in.
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
    """Return keys by score, highest first; equal ones in order of creation."""
    good = [key for key, score in scores.items() if score >= min_score]
    return sorted(good, key=lambda key: (-round(scores[key], 9), key))[:limit]


def result_group(
    counts: OutcomeCounts, recent: OutcomeCounts, thresholds: GroupThresholds
) -> ResultGroup:
    """Return the group that a playbook is shown in.

    `counts` are of all executions, `recent` of the latest ones. A playbook that fails lately is in
    group failed, however good it was before.
    """
    # Fewer failures say little: a playbook that succeeds nine times in ten fails once within seven
    # runs half of the time.
    is_failing = recent.failures >= MIN_FAILURES and recent.failures > recent.succeeded
    if is_failing and recent.confidence <= thresholds.failed_max:
        return "failed"
    if counts.confidence >= thresholds.proven_min:
        return "proven"
    return "mixed" if counts.failures else "untested"


def _results(
    connection: Connection, query: PlaybookQuery, found: IndexMatches, model: str | None
) -> list[SearchResult]:
    arms: dict[SearchArm, list[tuple[int, float]]] = {"words": found.words}
    if found.vectors is not None:
        arms["vectors"] = found.vectors
    relevance = fuse_scores(
        found.words,
        found.vectors,
        max_word_score=found.max_word_score,
        max_distance=found.max_distance,
    )
    confidence: dict[int, float] = {}
    if query.confidence_weight or not query.filter.drafts:
        rated = connection.execute(_RATED, {"keys": list(relevance)})
        confidence = {
            key: wilson_lower_bound(good, failures)
            for key, good, failures, status, source in rated
            if _passes(query.filter, status, source)  # the vector index does not know drafts
        }
        relevance = {key: score for key, score in relevance.items() if key in confidence}
    scores = blend_confidence(relevance, confidence, query.confidence_weight)
    order = ranked_keys(scores, min_score=query.min_score, limit=query.limit)
    stored = store.by_key(connection, order)
    ranks = {
        arm: {key: ArmRank(rank, score) for rank, (key, score) in enumerate(pairs, 1)}
        for arm, pairs in arms.items()
    }
    return [
        SearchResult(
            playbook=stored[key],
            score=round(scores[key], 6),
            relevance=round(relevance[key], 6),
            arm_ranks={arm: by_key[key] for arm, by_key in ranks.items() if key in by_key},
            lessons=_by_similarity(connection, stored[key].lessons, found.query_vector, model),
        )
        for key in order
        if key in stored and _passes(query.filter, stored[key].status, stored[key].source)
    ]


def _passes(where: PlaybookFilter, status: PlaybookStatus, source: str) -> bool:
    match status:
        case "archived":
            return where.archived
        case "draft":
            return where.drafts or source == where.own_source
        case "active":
            return True


def _by_similarity(
    connection: Connection, lessons: Sequence[Lesson], query: Vector | None, model: str | None
) -> tuple[str, ...]:
    """Sort lessons by similarity to the query; those without a vector come last, the newest first.

    Without a query vector all are sorted by age.
    """
    newest = sorted(lessons, key=lambda lesson: -lesson.id)
    if query is not None and len(newest) > 1:
        columns, ids = lesson_table.c, [lesson.id for lesson in newest]
        is_comparable = func.length(columns.vector) == 4 * len(query)
        embedded = select(columns.id, columns.vector).where(columns.id.in_(ids), is_comparable)
        rows = connection.execute(embedded.where(columns.model == model)).all()
        near = cosine_distances([row.vector for row in rows], query)
        distances = dict(zip((row.id for row in rows), near, strict=True))
        newest.sort(key=lambda lesson: distances.get(lesson.id, 2.0))
    return tuple(lesson.text for lesson in newest)
