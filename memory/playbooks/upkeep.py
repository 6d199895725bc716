"""Looking after a store: its totals, what is stale in it, and its indexes made anew."""

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
from memory.playbooks.lesson_vectors import embed_lessons
from memory.stale import Retention, stale_reason
from memory.tables import executions, playbooks
from memory.types import OutcomeCounts, Playbook, PlaybookFilter, StoreStats
from memory.vectors.sync import CHANGES_PER_BATCH, Progress

BATCH_PAUSE_S = 0.01
"""Between two batches: other writers only look now and then whether it is their turn."""


def store_stats(connection: Connection) -> StoreStats:
    """Counts over the whole store; the average is over playbooks that are not archived."""
    rows = connection.execute(
        select(
            playbooks.c.category,
            playbooks.c.status,
            playbooks.c.successes,
            playbooks.c.partials,
            playbooks.c.failures,
        )
    ).all()
    live = [row for row in rows if row.status != "archived"]
    trust = [
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
        average_confidence=sum(trust) / len(trust) if trust else 0.0,
        by_category=dict(sorted(Counter(row.category for row in live).items())),
    )


def prune(
    engine: Engine, retention: Retention, clock: Callable[[], datetime], *, dry_run: bool
) -> list[tuple[Playbook, str]]:
    """Archive what is stale; gives each with the reason. What is in use meanwhile stays."""
    now = clock()
    with read_transaction(engine) as connection:
        found = store.list_all(connection, PlaybookFilter())
    judged = [(playbook, stale_reason(playbook, retention, now)) for playbook in found]
    stale = [(playbook, why) for playbook, why in judged if why is not None]
    return stale if dry_run else [one for one in stale if _archive(engine, *one, retention, now)]


def _archive(
    engine: Engine, playbook: Playbook, why: str, retention: Retention, at: datetime
) -> bool:
    with write_transaction(engine) as connection:
        now = store.by_key(connection, [playbook.key]).get(playbook.key)
        if now is None or now.version != playbook.version or not stale_reason(now, retention, at):
            return False
        content = replace(content_of(now), status="archived")
        try:
            store.change(connection, now, content, source=f"prune: {why}", at=at)
        except StaleUpdate:
            return False
    return True


def reindex(engine: Engine, index: PlaybookIndex, progress: Progress | None = None) -> None:
    """Make words and vectors anew; embeds only what no vector of the model is kept of."""
    with read_transaction(engine) as connection:
        keys = list(connection.execute(select(playbooks.c.key).order_by(playbooks.c.key)).scalars())
    taught: list[str] = []
    for start in range(
        0, len(keys), CHANGES_PER_BATCH
    ):  # each for itself, so that others write in between
        with write_transaction(engine) as connection:
            batch = store.by_key(connection, keys[start : start + CHANGES_PER_BATCH], held=True)
            for key, playbook in batch.items():
                store.write_words(connection, key, playbook)
                taught += [playbook.id] if playbook.lessons else []
        sleep(BATCH_PAUSE_S)
    index.reindex(progress)
    for id_ in taught:
        with suppress(PlaybookNotFound):  # deleted meanwhile
            embed_lessons(engine, index, id_)
