"""Playbook search: fuse both arms, blend in confidence, cut to the limit, and group results."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain, zip_longest

from sqlalchemy import Connection, Engine, bindparam, select

from memory.database import read_transaction
from memory.indexing import text_digest
from memory.playbooks import executions, store
from memory.playbooks.index import IndexMatches, PlaybookIndex
from memory.playbooks.usefulness import RecentOutcomes, result_group
from memory.relevance import fuse_scores
from memory.tables import entries
from memory.types import (
    ArmRank,
    GroupedResults,
    GroupThresholds,
    Lesson,
    Observation,
    Playbook,
    PlaybookFilter,
    PlaybookQuery,
    PlaybookStatus,
    ResultGroup,
    SearchArm,
    SearchResult,
    Vector,
    wilson,
)
from memory.vectors.embeddings import lesson_distances

MATCHES_PER_ARM = 50
"""Playbooks that each arm returns before they are fused, or the query's limit if that is more."""

DEPTH_FACTOR = 4
"""Factor by which an arm searches deeper when drafts took the places of reviewed playbooks."""

MAX_FAILURES_SHOWN = 5
"""Failures that the rendering of a playbook names."""

_RATED = select(
    entries.c.key,
    entries.c.successes + entries.c.partials,
    entries.c.failures,
    entries.c.status,
    entries.c.source,
).where(entries.c.key.in_(bindparam("keys", expanding=True)))


def search_playbooks(
    engine: Engine, index: PlaybookIndex, query: PlaybookQuery
) -> list[SearchResult]:
    """Return the best playbooks, best first; of equal ones the oldest first.

    With `query.taught` every second one is the next best that has lessons.
    """
    query = replace(query, limit=min(query.limit, store.MAX_LISTED))
    depth = max(MATCHES_PER_ARM, query.limit)
    while True:
        found = index.search(
            query.text,
            query.filter,
            depth=depth,
            max_distance=query.max_distance,
            taught=query.taught,
        )
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
    seed: str = "",
) -> GroupedResults:
    """Return the results by group, at most `query.limit` in each, with failures and origin."""
    with_failures = [r.playbook.key for r in results if r.playbook.counts.failures]
    recent = executions.recent_outcomes(connection, with_failures)
    groups: dict[ResultGroup, list[SearchResult]] = {g: [] for g in GroupedResults(query="").groups}
    for result in results:
        one = result.playbook
        latest = recent.get(one.key, RecentOutcomes())
        group = result_group(one.counts, latest, thresholds, seed=seed and f"{seed} {one.id}")
        groups[group].append(result)
    chosen = {group: found[: query.limit] for group, found in groups.items()}
    keys = [result.playbook.key for found in chosen.values() for result in found]
    by_others = store.written_by_others(connection, keys)

    def complete(group: ResultGroup, result: SearchResult) -> SearchResult:
        playbook = result.playbook
        failures = failure_texts(connection, playbook.key) if group == "failing" else ()
        runs = [lesson.run_id for lesson in playbook.lessons] + [one.run_id for one in failures]
        by_run = playbook.key in by_others or any(run_id is not None for run_id in runs)
        return replace(result, failure_texts=failures, has_run_text=by_run)

    return GroupedResults(
        query=query.text,
        **{group: tuple(complete(group, r) for r in found) for group, found in chosen.items()},
    )


def failure_texts(connection: Connection, key: int) -> tuple[Observation, ...]:
    """Return approved texts about the latest failures, then the names of failed steps.

    The output of a step is left out: it may hold other people's data, or text meant to mislead.
    """
    latest = executions.list_executions(
        connection, key, outcome="failure", limit=MAX_FAILURES_SHOWN
    )
    found = [
        Observation(text, e.run_id) for e in latest if e.reflection for text in e.reflection.told
    ]
    steps = [step for execution in latest for step in execution.step_results]
    found += [
        Observation(f"{step.name}: failure", None) for step in steps if step.outcome == "failure"
    ]
    by_text = {one.text: one for one in reversed(found)}
    distinct = [one for one in found if by_text.pop(one.text, None)]
    return tuple(distinct[:MAX_FAILURES_SHOWN])


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


def _results(
    connection: Connection, query: PlaybookQuery, found: IndexMatches, model: str | None
) -> list[SearchResult]:
    arms: dict[SearchArm, list[tuple[int, float]]] = {"words": found.words}
    if found.vectors is not None:
        by_distance = {*found.vectors, *found.taught}
        arms["vectors"] = sorted(by_distance, key=lambda pair: (pair[1], pair[0]))
    relevance = fuse_scores(
        found.words,
        arms.get("vectors"),
        max_word_score=found.max_word_score,
        max_distance=found.max_distance,
    )
    confidence: dict[int, float] = {}
    if query.confidence_weight or not query.filter.drafts:
        rated = connection.execute(_RATED, {"keys": list(relevance)})
        confidence = {
            key: wilson(good, failures)[query.optimistic]
            for key, good, failures, status, source in rated
            if _passes(query.filter, status, source)  # the vector index does not know drafts
        }
        relevance = {key: score for key, score in relevance.items() if key in confidence}
    scores = blend_confidence(relevance, confidence, query.confidence_weight)
    best = ranked_keys(scores, min_score=query.min_score, limit=query.limit)
    learned = {key: scores[key] for key, _ in found.taught if key in scores}
    taught = ranked_keys(learned, min_score=query.min_score, limit=query.taught)
    order = list(dict.fromkeys(filter(None, chain.from_iterable(zip_longest(best, taught)))))
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
            lessons=_by_similarity(connection, stored[key], found.query_vector, model),
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
    connection: Connection, playbook: Playbook, query: Vector | None, model: str | None
) -> tuple[Lesson, ...]:
    """Sort lessons by similarity to the query; those without a vector come last, the newest first.

    Without a query vector all are sorted by age.
    """
    newest = sorted(playbook.lessons, key=lambda lesson: -lesson.id)
    if query is not None and len(newest) > 1:
        distances = lesson_distances(connection, playbook.key, model or "", query)
        newest.sort(key=lambda lesson: distances.get(text_digest(lesson.text), 2.0))
    return tuple(newest)
