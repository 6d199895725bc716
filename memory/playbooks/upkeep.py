"""Maintenance of the store: totals, stale playbooks, rebuilding and checking the indexes."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from time import sleep

from sqlalchemy import Connection, Engine, func, select, text

from memory.content import content_of, embedding_text
from memory.database import read_transaction, write_transaction
from memory.entries import IS_PLAYBOOK
from memory.errors import StaleUpdate
from memory.indexing import index_entries, searched_texts, word_impacts
from memory.playbooks import store
from memory.playbooks.index import PlaybookIndex
from memory.playbooks.write import update_playbook
from memory.relevance import query_words
from memory.tables import (
    entries,
    entry_vectors,
    entry_words,
    executions,
    outdated_entries,
)
from memory.types import OutcomeCounts, Playbook, PlaybookFilter, Retention
from memory.vectors import embeddings
from memory.vectors.chroma import VectorIndexCorrupt, VectorIndexUnavailable
from memory.vectors.sync import CHANGES_PER_BATCH, Progress

BATCH_PAUSE_S = 0.01
"""Pause between two batches, longer than other writers wait before they ask for the lock again."""

SELF_RECALL_SAMPLE = 200
"""Playbooks that are searched by their own text."""

_REINDEX = "`harness memory reindex`"

SearchByText = Callable[[str], Sequence[Playbook]]
"""Returns the best playbooks for a text, best first."""


@dataclass(frozen=True, kw_only=True)
class IndexCheck:
    """Result of one check. `advice` says what to do if it is not ok."""

    name: str
    ok: bool
    seen: str
    advice: str = ""


@dataclass(frozen=True, kw_only=True)
class StoreStats:
    """Totals over the store."""

    playbooks: int
    archived: int
    executions: int
    pending: int
    average_confidence: float
    by_category: Mapping[str, int]


def store_stats(connection: Connection) -> StoreStats:
    """Return totals over the store; archived playbooks have no part in the average."""
    columns = entries.c
    counters = (columns.successes, columns.partials, columns.failures)
    rows = connection.execute(
        select(columns.category, columns.status, *counters).where(IS_PLAYBOOK)
    ).all()
    live = [row for row in rows if row.status != "archived"]
    confidences = [
        OutcomeCounts(successes=r.successes, partials=r.partials, failures=r.failures).confidence
        for r in live
    ]
    counted = select(executions.c.outcome, func.count()).group_by(executions.c.outcome)
    by_outcome = {str(outcome): int(n) for outcome, n in connection.execute(counted)}
    return StoreStats(
        playbooks=len(live),
        archived=len(rows) - len(live),
        executions=sum(by_outcome.values()),
        pending=by_outcome.get("pending", 0),
        average_confidence=sum(confidences) / len(confidences) if confidences else 0.0,
        by_category=dict(sorted(Counter(row.category for row in live).items())),
    )


def stale_reason(playbook: Playbook, retention: Retention, now: datetime) -> str | None:
    """Return why a playbook should be archived, or None."""

    def is_old(moment: datetime) -> bool:
        return (now - moment).total_seconds() > retention.max_age_days * 86_400

    used = playbook.last_used_at
    if playbook.status == "archived" or not is_old(playbook.updated_at):
        return None
    if used is not None:
        return f"not used for {retention.max_age_days:g} days" if is_old(used) else None
    is_weak = playbook.confidence < retention.min_confidence
    return f"never used in {retention.max_age_days:g} days" if is_weak else None


def prune(
    engine: Engine, retention: Retention, now: datetime, *, dry_run: bool
) -> list[tuple[Playbook, str]]:
    """Archive stale playbooks; return each with the reason."""
    with read_transaction(engine) as connection:
        found = store.list_all(connection, PlaybookFilter())
    judged = [(playbook, stale_reason(playbook, retention, now)) for playbook in found]
    stale = [(playbook, reason) for playbook, reason in judged if reason is not None]
    if dry_run:
        return stale
    return [(p, reason) for p, reason in stale if _archive(engine, p, reason, retention, now)]


def _archive(
    engine: Engine, playbook: Playbook, reason: str, retention: Retention, at: datetime
) -> bool:
    """Archive a playbook, unless it was used or changed since it was read."""
    with write_transaction(engine) as connection:
        now = store.by_key(connection, [playbook.key]).get(playbook.key)
        if now is None or now.version != playbook.version or not stale_reason(now, retention, at):
            return False
        content = replace(content_of(now), status="archived")
        try:
            update_playbook(connection, now, content, source=f"prune: {reason}", at=at)
        except StaleUpdate:
            return False
    return True


def reindex(engine: Engine, index: PlaybookIndex, progress: Progress | None = None) -> None:
    """Rebuild the word index and the vector index, and embed what the model has not."""
    with read_transaction(engine) as connection:
        keys = connection.scalars(select(entries.c.key).order_by(entries.c.key)).all()
    for start in range(0, len(keys), CHANGES_PER_BATCH):
        batch = keys[start : start + CHANGES_PER_BATCH]
        with write_transaction(engine) as connection:
            index_entries(connection, batch)
        sleep(BATCH_PAUSE_S)
    index.reindex(progress)


def check_indexes(engine: Engine, index: PlaybookIndex, search: SearchByText) -> list[IndexCheck]:
    """Compare the indexes with the database."""
    mismatches = index.vector_mismatches()
    with read_transaction(engine) as connection:
        damaged = store.describe_damaged_rows(connection)
        seen = f"{len(damaged)} of them cannot be read"
        checks = [
            _check_database(connection),
            _check("playbooks", damaged, seen, "; ".join(damaged)),
            _check_words(connection),
            _check_embeddings(connection, mismatches),
        ]
    vectors = list(_check_vectors(engine, index, search))
    # Last, because checking the vectors embeds what is missing.
    with read_transaction(engine) as connection:
        queued = select(func.count()).select_from(outdated_entries)
        changes = connection.execute(queued).scalar_one()
        missing = embeddings.count_missing(connection) if index.model is not None else 0
    seen = f"{changes} changes not yet in the vector index, {missing} entries without a vector"
    waiting = _check("waiting", missing, seen, f"{_REINDEX}, once the model answers")
    return [*checks, waiting, *vectors]


def _check(name: str, problem: object, seen: str, advice: str = _REINDEX) -> IndexCheck:
    return IndexCheck(name=name, ok=not problem, seen=seen, advice=advice if problem else "")


def _check_database(connection: Connection) -> IndexCheck:
    if connection.dialect.name != "sqlite":
        return _check("database", None, "it answers")
    result = str(connection.execute(text("PRAGMA quick_check(1)")).scalar())
    advice = "`harness memory doctor --back-up`, then import an export"
    return _check("database", result != "ok", result, advice)


def _check_words(connection: Connection) -> IndexCheck:
    indexed = select(entry_words.c.entry_key).distinct()
    query = select(entries.c.key).where(entries.c.key.not_in(indexed))
    keys = connection.scalars(query.limit(store.KEYS_PER_STATEMENT)).all()
    # A title of emoji alone has no words.
    found = searched_texts(connection, keys)
    missing = sum(bool(word_impacts(one.playbook or one.text)) for one in found)
    return _check("words", missing, f"{missing} entries without words")


def _check_embeddings(connection: Connection, mismatches: Sequence[str]) -> IndexCheck:
    columns, problems = entry_vectors.c, list(mismatches)
    counted = select(columns.model, func.count()).where(columns.dimensions > 0)
    rows = connection.execute(counted.group_by(columns.model).order_by(columns.model))
    seen = ", ".join(f"{number} by {model}" for model, number in rows) or "none"
    query = select(entries.c.slug).distinct().join(entry_vectors)
    query = query.where(columns.dimensions == 0)
    if refused := connection.execute(query.order_by(entries.c.slug)).scalars().all():
        problems.append(
            f"the model refuses texts of {len(refused)} entries, which are not found by meaning: "
            f"change {', '.join(refused[:5])}"
        )
    return _check("embeddings", problems, seen, "; ".join(problems))


def _check_vectors(
    engine: Engine, index: PlaybookIndex, search: SearchByText
) -> Iterator[IndexCheck]:
    index.refresh()
    yield _check_keys(engine, index)
    with read_transaction(engine) as connection:
        newest = store.list_all(connection, PlaybookFilter(), limit=SELF_RECALL_SAMPLE)
    texts = [embedding_text(p.title, p.use_case) for p in newest]
    sample = [own for own in texts if index.model or query_words(own)]
    lost = sum(
        own not in [embedding_text(p.title, p.use_case) for p in search(own)] for own in sample
    )
    seen = f"{len(sample) - lost} of {len(sample)} found by their own text"
    yield _check("self-recall", lost, seen)


def _check_keys(engine: Engine, index: PlaybookIndex) -> IndexCheck:
    """Check that the vector index has exactly the playbooks that have a vector."""
    try:
        keys = index.keys()
    except VectorIndexUnavailable as error:
        advice = "words are searched meanwhile; the next search that can use it completes it"
        return _check("vectors", error, str(error), advice)
    except VectorIndexCorrupt as error:
        return _check("vectors", error, str(error))
    if keys is None:
        return _check("vectors", None, "no embedding model: words only")
    query = select(entries.c.key).join(entry_vectors)
    query = query.where(IS_PLAYBOOK, entries.c.status != "archived")
    with read_transaction(engine) as connection:
        wanted = connection.execute(query.where(embeddings.is_indexed(index.model or "")))
        wrong = len(keys ^ set(wanted.scalars()))
    return _check("vectors", wrong, f"{len(keys)} playbooks, {wrong} unlike the database")
