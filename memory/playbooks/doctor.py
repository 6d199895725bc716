"""Whether the indexes tell the truth, and whether the truth can be read."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, Engine, func, select, text

from memory import rows
from memory.content import embedding_text
from memory.database import read_transaction
from memory.playbooks import store
from memory.playbooks.index import PlaybookIndex
from memory.tables import outdated_playbooks, playbook_words, playbooks
from memory.types import Playbook, PlaybookFilter
from memory.vectors import stored_vectors
from memory.vectors.chroma import VectorIndexCorrupt, VectorIndexUnavailable
from memory.words import query_words, word_impacts

SELF_RECALL_SAMPLE = 200
"""Playbooks that `doctor` looks up by their own text."""

_NAMED = 5


SearchByText = Callable[[str], Sequence[Playbook]]
"""What a search for a text gives, the best first."""


@dataclass(frozen=True, kw_only=True)
class IndexCheck:
    """One thing that `doctor` looked at. `advice` says what to do when it is not ok."""

    name: str
    ok: bool
    seen: str
    advice: str = ""


def check_indexes(
    engine: Engine, index: PlaybookIndex, search: SearchByText, *, repair: bool
) -> list[IndexCheck]:
    """Compare the indexes with the database; with `repair`, make anew what differs."""
    with read_transaction(engine) as connection:
        truth = [_database(connection), _playbooks(connection), _words(connection)]
        truth.append(_embedded(connection, index))
    vectors = _vectors(engine, index, search)
    if repair and not all(finding.ok for finding in vectors):
        index.rebuild()
        vectors = _vectors(engine, index, search)
    with read_transaction(engine) as connection:
        waiting = _waiting(connection, index)
    return [*truth, waiting, *vectors]


def _database(connection: Connection) -> IndexCheck:
    if connection.dialect.name != "sqlite":
        return IndexCheck(name="database", ok=True, seen="it answers")
    said = str(connection.execute(text("PRAGMA quick_check(1)")).scalar())
    advice = "" if said == "ok" else "`harness memory doctor --back-up`, then import an export"
    return IndexCheck(name="database", ok=said == "ok", seen=said, advice=advice)


def _playbooks(connection: Connection) -> IndexCheck:
    damaged = rows.describe_damaged_rows(connection)
    return IndexCheck(
        name="playbooks",
        ok=not damaged,
        seen=f"{len(damaged)} of them cannot be read",
        advice="; ".join(damaged),
    )


def _words(connection: Connection) -> IndexCheck:
    known = select(playbook_words.c.playbook_key).distinct()
    query = select(playbooks.c.key).where(playbooks.c.key.not_in(known))
    bare = store.by_key(
        connection, list(connection.execute(query.limit(rows.KEYS_PER_STATEMENT)).scalars())
    )
    missing = sum(bool(word_impacts(playbook)) for playbook in bare.values())  # 🚀 has none
    return IndexCheck(
        name="words",
        ok=missing == 0,
        seen=f"{missing} playbooks without words",
        advice="`harness memory reindex`" if missing else "",
    )


def _embedded(connection: Connection, index: PlaybookIndex) -> IndexCheck:
    models = stored_vectors.count_by_model(connection)
    unlike = list(index.vector_mismatches())
    if old := stored_vectors.with_outdated_vector(connection):
        unlike.append(f"{len(old)} are of an earlier text: `harness memory reindex`")
    if refused := stored_vectors.refused_slugs(connection):
        named = ", ".join(refused[:_NAMED])
        unlike.append(
            f"the model takes no text of {len(refused)} playbooks, which are found by words only: "
            f"change the title or use case of {named}"
        )
    return IndexCheck(
        name="embeddings",
        ok=not unlike,
        seen=", ".join(f"{n} by {model}" for model, n in sorted(models.items())) or "none",
        advice="; ".join(unlike),
    )


def _vectors(engine: Engine, index: PlaybookIndex, find: SearchByText) -> list[IndexCheck]:
    """What can be told of the vector index; nothing is asked of one that could end this process."""
    if index.is_sound():
        return [_held(engine, index), _recall(engine, index, find)]
    advice = "`harness memory doctor --repair`"
    return [IndexCheck(name="vectors", ok=False, seen="damaged", advice=advice)]


def _waiting(connection: Connection, index: PlaybookIndex) -> IndexCheck:
    """Whether all that the model has to do is done: to be asked after the index was refreshed."""
    changes = connection.execute(select(func.count()).select_from(outdated_playbooks)).scalar_one()
    lacking = stored_vectors.count_missing(connection) if index.model is not None else 0
    return IndexCheck(
        name="waiting",
        ok=not lacking,
        seen=f"{changes} changes not yet in the vector index, {lacking} playbooks without a vector",
        advice="`harness memory reindex`, once the model answers" if lacking else "",
    )


def _held(engine: Engine, index: PlaybookIndex) -> IndexCheck:
    """Whether the vector index holds exactly what the database has vectors of."""
    index.refresh()
    try:
        held = index.keys()
    except VectorIndexUnavailable as error:
        advice = "words are searched meanwhile; the next search that can use it completes it"
        return IndexCheck(name="vectors", ok=False, seen=str(error), advice=advice)
    except VectorIndexCorrupt as error:
        return IndexCheck(
            name="vectors", ok=False, seen=str(error), advice="`harness memory reindex`"
        )
    if held is None:
        return IndexCheck(name="vectors", ok=True, seen="no embedding model: words only")
    with read_transaction(engine) as connection:
        live, archived = stored_vectors.indexed_keys(connection, index.model or "")
    wrong = len(held[0] ^ live) + len(held[1] ^ archived)
    return IndexCheck(
        name="vectors",
        ok=wrong == 0,
        seen=f"{len(held[0])} live, {len(held[1])} archived, {wrong} unlike the database",
        advice="`harness memory reindex`" if wrong else "",
    )


def _recall(engine: Engine, index: PlaybookIndex, find: SearchByText) -> IndexCheck:
    with read_transaction(engine) as connection:
        newest = store.list_all(connection, PlaybookFilter(), limit=SELF_RECALL_SAMPLE)
    sample = [p for p in newest if index.model or query_words(_text(p))]
    lost = [p for p in sample if _text(p) not in map(_text, find(_text(p)))]
    return IndexCheck(
        name="self-recall",
        ok=not lost,
        seen=f"{len(sample) - len(lost)} of {len(sample)} found by their own text",
        advice="`harness memory reindex`" if lost else "",
    )


def _text(playbook: Playbook) -> str:
    return embedding_text(playbook.title, playbook.use_case)
