"""Maintenance of the store: totals, archiving stale playbooks, and rebuilding the indexes."""

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from time import sleep

from sqlalchemy import Connection, Engine, func, select

from memory.content import content_of
from memory.database import read_transaction, write_transaction
from memory.errors import PlaybookNotFound, StaleUpdate
from memory.playbooks import store
from memory.playbooks.index import PlaybookIndex
from memory.playbooks.lessons import embed_lessons
from memory.playbooks.write import update_playbook, write_words
from memory.tables import executions, playbooks
from memory.types import OutcomeCounts, Playbook, PlaybookFilter, Retention, StoreStats
from memory.vectors.sync import CHANGES_PER_BATCH, Progress

BATCH_PAUSE_S = 0.01
"""Pause between two batches, longer than other writers wait before they ask for the lock again."""


def store_stats(connection: Connection) -> StoreStats:
    """Return totals over the store; archived playbooks have no part in the average."""
    columns = playbooks.c
    rows = connection.execute(
        select(
            columns.category, columns.status, columns.successes, columns.partials, columns.failures
        )
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
    engine: Engine, retention: Retention, clock: Callable[[], datetime], *, dry_run: bool
) -> list[tuple[Playbook, str]]:
    """Archive stale playbooks; return each with the reason."""
    now = clock()
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
        keys = list(connection.execute(select(playbooks.c.key).order_by(playbooks.c.key)).scalars())
    with_lessons: list[str] = []
    for start in range(0, len(keys), CHANGES_PER_BATCH):
        batch = keys[start : start + CHANGES_PER_BATCH]
        with write_transaction(engine) as connection:
            for key, playbook in store.by_key(connection, batch, lock=True).items():
                write_words(connection, key, playbook)
                with_lessons += [playbook.id] if playbook.lessons else []
        sleep(BATCH_PAUSE_S)
    index.reindex(progress)
    for id_ in with_lessons:
        with suppress(PlaybookNotFound):  # deleted since
            embed_lessons(engine, index, id_)
