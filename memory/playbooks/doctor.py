"""`harness memory doctor`: compares the search indexes with the database, and checks its rows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, Engine, func, select, text

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
"""Playbooks that are searched by their own text."""

_MAX_NAMED = 5
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


def check_indexes(
    engine: Engine, index: PlaybookIndex, search: SearchByText, *, repair: bool
) -> list[IndexCheck]:
    """Run all checks; with `repair`, rebuild the vector index if it fails one."""
    with read_transaction(engine) as connection:
        checks = [
            _check_database(connection),
            _check_rows(connection),
            _check_words(connection),
            _check_embeddings(connection, index),
        ]
    vectors = _check_vectors(engine, index, search)
    if repair and not all(check.ok for check in vectors):
        index.rebuild()
        vectors = _check_vectors(engine, index, search)
    with read_transaction(engine) as connection:
        waiting = _check_waiting(connection, index)
    return [*checks, waiting, *vectors]


def _check(name: str, problem: object, seen: str, advice: str) -> IndexCheck:
    return IndexCheck(name=name, ok=not problem, seen=seen, advice=advice if problem else "")


def _check_database(connection: Connection) -> IndexCheck:
    if connection.dialect.name != "sqlite":
        return IndexCheck(name="database", ok=True, seen="it answers")
    result = str(connection.execute(text("PRAGMA quick_check(1)")).scalar())
    advice = "`harness memory doctor --back-up`, then import an export"
    return _check("database", result != "ok", result, advice)


def _check_rows(connection: Connection) -> IndexCheck:
    damaged = store.describe_damaged_rows(connection)
    return _check(
        "playbooks", damaged, f"{len(damaged)} of them cannot be read", "; ".join(damaged)
    )


def _check_words(connection: Connection) -> IndexCheck:
    indexed = select(playbook_words.c.playbook_key).distinct()
    query = select(playbooks.c.key).where(playbooks.c.key.not_in(indexed))
    keys = list(connection.execute(query.limit(store.KEYS_PER_STATEMENT)).scalars())
    # A title of emoji alone has no words.
    missing = sum(bool(word_impacts(p)) for p in store.by_key(connection, keys).values())
    return _check("words", missing, f"{missing} playbooks without words", _REINDEX)


def _check_embeddings(connection: Connection, index: PlaybookIndex) -> IndexCheck:
    models = stored_vectors.count_by_model(connection)
    problems = list(index.vector_mismatches())
    if outdated := stored_vectors.with_outdated_vector(connection):
        problems.append(f"{len(outdated)} are of an earlier text: {_REINDEX}")
    if refused := stored_vectors.refused_slugs(connection):
        problems.append(
            f"the model refuses the text of {len(refused)} playbooks, which are found by words "
            f"only: change the title or use case of {', '.join(refused[:_MAX_NAMED])}"
        )
    seen = ", ".join(f"{n} by {model}" for model, n in sorted(models.items())) or "none"
    return _check("embeddings", problems, seen, "; ".join(problems))


def _check_waiting(connection: Connection, index: PlaybookIndex) -> IndexCheck:
    """Check that the model has embedded everything; to be called after the index was refreshed."""
    changes = connection.execute(select(func.count()).select_from(outdated_playbooks)).scalar_one()
    missing = stored_vectors.count_missing(connection) if index.model is not None else 0
    seen = f"{changes} changes not yet in the vector index, {missing} playbooks without a vector"
    return _check("waiting", missing, seen, f"{_REINDEX}, once the model answers")


def _check_vectors(engine: Engine, index: PlaybookIndex, search: SearchByText) -> list[IndexCheck]:
    if not index.is_intact():  # reading a damaged graph could crash this process
        advice = "`harness memory doctor --repair`"
        return [IndexCheck(name="vectors", ok=False, seen="damaged", advice=advice)]
    return [_check_keys(engine, index), _check_self_recall(engine, index, search)]


def _check_keys(engine: Engine, index: PlaybookIndex) -> IndexCheck:
    """Check that the vector index has exactly the playbooks that have a vector."""
    index.refresh()
    try:
        keys = index.keys()
    except VectorIndexUnavailable as error:
        advice = "words are searched meanwhile; the next search that can use it completes it"
        return IndexCheck(name="vectors", ok=False, seen=str(error), advice=advice)
    except VectorIndexCorrupt as error:
        return IndexCheck(name="vectors", ok=False, seen=str(error), advice=_REINDEX)
    if keys is None:
        return IndexCheck(name="vectors", ok=True, seen="no embedding model: words only")
    with read_transaction(engine) as connection:
        live, archived = stored_vectors.indexed_keys(connection, index.model or "")
    wrong = len(keys[0] ^ live) + len(keys[1] ^ archived)
    seen = f"{len(keys[0])} live, {len(keys[1])} archived, {wrong} unlike the database"
    return _check("vectors", wrong, seen, _REINDEX)


def _check_self_recall(engine: Engine, index: PlaybookIndex, search: SearchByText) -> IndexCheck:
    """Check that playbooks are found by their own text."""
    with read_transaction(engine) as connection:
        newest = store.list_all(connection, PlaybookFilter(), limit=SELF_RECALL_SAMPLE)
    texts = [embedding_text(p.title, p.use_case) for p in newest]
    sample = [own for own in texts if index.model or query_words(own)]
    lost = sum(
        own not in [embedding_text(p.title, p.use_case) for p in search(own)] for own in sample
    )
    seen = f"{len(sample) - lost} of {len(sample)} found by their own text"
    return _check("self-recall", lost, seen, _REINDEX)
