"""Looking after a store: its totals, and whether the indexes tell the truth."""

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from time import sleep

from sqlalchemy import Connection, Engine, func, select, text

from memory import store, stored_vectors
from memory.chroma_door import VectorsAway, VectorsBroken
from memory.content import content_of, embedded_text
from memory.database import reading, writing
from memory.errors import PlaybookNotFound, StaleUpdate
from memory.index import Index
from memory.keep_up import BATCH, Progress
from memory.lesson_vectors import embed_lessons
from memory.stale import Retention, why_stale
from memory.tables import executions, outdated, playbooks, words
from memory.types import Counts, Filter, Playbook, Stats
from memory.words import impacts, query_words

PAUSE_S = 0.01
"""Between two batches: who waits for a turn to write looks whether it is theirs, now and then."""

SELF_RECALL = 200
"""Playbooks that `doctor` looks up by their own text."""


Find = Callable[[str], Sequence[Playbook]]
"""What a search for a text gives, the best first."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that `doctor` looked at. `advice` says what to do when it is not ok."""

    name: str
    ok: bool
    seen: str
    advice: str = ""


def totals(connection: Connection) -> Stats:
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
        Counts(successes=r.successes, partials=r.partials, failures=r.failures).confidence
        for r in live
    ]
    counted = select(executions.c.outcome, func.count()).group_by(executions.c.outcome)
    by_outcome = {str(outcome): int(n) for outcome, n in connection.execute(counted)}
    return Stats(
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
    with reading(engine) as connection:
        found = store.list_all(connection, Filter())
    judged = [(playbook, why_stale(playbook, retention, now)) for playbook in found]
    stale = [(playbook, why) for playbook, why in judged if why is not None]
    return stale if dry_run else [one for one in stale if _archive(engine, *one, retention, now)]


def _archive(
    engine: Engine, playbook: Playbook, why: str, retention: Retention, at: datetime
) -> bool:
    with writing(engine) as connection:
        now = store.by_key(connection, [playbook.key]).get(playbook.key)
        if now is None or now.version != playbook.version or not why_stale(now, retention, at):
            return False
        content = replace(content_of(now), status="archived")
        try:
            store.change(connection, now, content, source=f"prune: {why}", at=at)
        except StaleUpdate:
            return False
    return True


def examine(engine: Engine, index: Index, find: Find, *, repair: bool) -> list[Finding]:
    """Compare the indexes with the database; with `repair`, make anew what differs."""
    with reading(engine) as connection:
        findings = [_database(connection), _words(connection), _embedded(connection, index)]
        waiting = connection.execute(select(func.count()).select_from(outdated)).scalar_one()
    vectors = _vectors(engine, index)
    if repair and not vectors.ok:
        index.rebuild()
        vectors = _vectors(engine, index)
    queue = Finding(name="waiting", ok=True, seen=f"{waiting} changes not yet in the vector index")
    return [*findings, queue, vectors, _recall(engine, index, find)]


def reindex(engine: Engine, index: Index, progress: Progress | None = None) -> None:
    """Make words and vectors anew; embeds only what no vector of the model is kept of."""
    with reading(engine) as connection:
        keys = list(connection.execute(select(playbooks.c.key).order_by(playbooks.c.key)).scalars())
    taught: list[str] = []
    for start in range(0, len(keys), BATCH):  # each for itself, so that others write in between
        with writing(engine) as connection:
            for key, playbook in store.by_key(connection, keys[start : start + BATCH]).items():
                store.write_words(connection, key, playbook)
                taught += [playbook.id] if playbook.lessons else []
        sleep(PAUSE_S)
    index.reindex(progress)
    for id_ in taught:
        with suppress(PlaybookNotFound):  # deleted meanwhile
            embed_lessons(engine, index, id_)


def _database(connection: Connection) -> Finding:
    if connection.dialect.name != "sqlite":
        return Finding(name="database", ok=True, seen="it answers")
    said = str(connection.execute(text("PRAGMA quick_check(1)")).scalar())
    advice = "" if said == "ok" else "`harness memory doctor --back-up`, then import an export"
    return Finding(name="database", ok=said == "ok", seen=said, advice=advice)


def _words(connection: Connection) -> Finding:
    known = select(words.c.playbook_key).distinct()
    query = select(playbooks.c.key).where(playbooks.c.key.not_in(known))
    bare = store.by_key(connection, list(connection.execute(query.limit(store.AT_ONCE)).scalars()))
    missing = sum(bool(impacts(playbook)) for playbook in bare.values())  # 🚀 has none
    return Finding(
        name="words",
        ok=missing == 0,
        seen=f"{missing} playbooks without words",
        advice="`harness memory reindex`" if missing else "",
    )


def _embedded(connection: Connection, index: Index) -> Finding:
    models = stored_vectors.by_model(connection)
    unlike = list(index.unlike())
    if old := stored_vectors.of_old_text(connection):
        unlike.append(f"{len(old)} are of an earlier text: `harness memory reindex`")
    return Finding(
        name="embeddings",
        ok=not unlike,
        seen=", ".join(f"{n} by {model}" for model, n in sorted(models.items())) or "none",
        advice="; ".join(unlike),
    )


def _vectors(engine: Engine, index: Index) -> Finding:
    """Whether the vector index holds exactly what the database has vectors of."""
    index.refresh()
    try:
        held = index.keys()
    except VectorsAway as error:
        advice = "words are searched meanwhile; the next search that can use it completes it"
        return Finding(name="vectors", ok=False, seen=str(error), advice=advice)
    except VectorsBroken as error:
        return Finding(name="vectors", ok=False, seen=str(error), advice="`harness memory reindex`")
    if held is None:
        return Finding(name="vectors", ok=True, seen="no embedding model: words only")
    with reading(engine) as connection:
        live, archived = stored_vectors.searchable(connection, index.model or "")
    wrong = len(held[0] ^ live) + len(held[1] ^ archived)
    return Finding(
        name="vectors",
        ok=wrong == 0,
        seen=f"{len(held[0])} live, {len(held[1])} archived, {wrong} unlike the database",
        advice="`harness memory reindex`" if wrong else "",
    )


def _recall(engine: Engine, index: Index, find: Find) -> Finding:
    with reading(engine) as connection:
        newest = store.list_all(connection, Filter(), limit=SELF_RECALL)
    sample = [p for p in newest if index.model or query_words(_text(p))]
    lost = [p for p in sample if _text(p) not in map(_text, find(_text(p)))]
    return Finding(
        name="self-recall",
        ok=not lost,
        seen=f"{len(sample) - len(lost)} of {len(sample)} found by their own text",
        advice="`harness memory reindex`" if lost else "",
    )


def _text(playbook: Playbook) -> str:
    return embedded_text(playbook.title, playbook.use_case)
