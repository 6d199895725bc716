"""Embeddings of texts: made by a model, and stored in the database, which keeps every vector."""

from collections.abc import Sequence
from functools import lru_cache
from math import isfinite

from sqlalchemy import (
    ColumnElement,
    Connection,
    and_,
    delete,
    exists,
    func,
    insert,
    or_,
    select,
)

from contracts.errors import HarnessError, ModelRefused
from memory.entries import IS_PLAYBOOK
from memory.indexing import EntryText, searched_texts, texts_with_vector
from memory.tables import entries, entry_vectors, outdated_entries
from memory.types import Embedder, Vector

EMBEDDED_CHARACTERS = 4_000
"""Characters of a text that are embedded. Providers refuse longer texts."""

PROBE_TEXT = "a playbook"
"""A text that no working model refuses."""

_columns = entry_vectors.c
# A vector cut short by a damaged disk is embedded again: numpy could not read it.
_IS_WHOLE = func.length(_columns.vector) == 4 * _columns.dimensions
_HAS_VECTOR = and_(_columns.entry_key == entries.c.key, _IS_WHOLE, ~_columns.is_lesson)
_LACKS_VECTOR = and_(entries.c.status != "Revoked", ~exists().where(_HAS_VECTOR))


def embed_texts(embedder: Embedder, texts: Sequence[str]) -> list[Vector]:
    """Return one vector of finite numbers per text, in order.

    Raises:
        ModelRefused: the model failed on one of these texts, and may accept others.
        ModelUnavailable: it does not answer.
    """
    try:
        made = embedder.embed([text[:EMBEDDED_CHARACTERS] for text in texts])
        vectors = [[float(number) for number in vector] for vector in made]
    except HarnessError:
        raise
    except Exception as error:  # a library user's own function may raise anything
        raise ModelRefused(f"{embedder.name!r} failed: {type(error).__name__}: {error}") from error
    if len(vectors) != len(texts):
        raise ModelRefused(f"{embedder.name!r} gave {len(vectors)} vectors for {len(texts)} texts")
    if not all(vector and all(map(isfinite, vector)) for vector in vectors):
        raise ModelRefused(f"{embedder.name!r} gave an empty vector or one that is not finite")
    return [*vectors]


def embed_each(embedder: Embedder, texts: Sequence[str]) -> list[Vector]:
    """Return one vector per text, in order; an empty one for each text that the model refuses.

    Raises:
        ModelUnavailable: the model does not answer, or refuses every text.
    """
    try:
        return embed_texts(embedder, texts)
    except ModelRefused:
        embed_texts(embedder, [PROBE_TEXT])
    vectors: list[Vector] = []
    for text in texts:
        try:
            vectors += embed_texts(embedder, [text])
        except ModelRefused:
            vectors.append(())
    return vectors


@lru_cache(maxsize=64)
def embed_query(embedder: Embedder, text: str) -> Vector:
    """Return the vector of a query. A run asks the library and the notebook the same question.

    Raises:
        ModelUnavailable: the model does not answer; the next call tries again.
    """
    return embed_texts(embedder, [text])[0]


def texts_to_embed(connection: Connection, keys: Sequence[int]) -> list[EntryText]:
    """Return the texts of these entries that have no vector."""
    stored = select(_columns.entry_key, _columns.digest, _columns.is_lesson)
    rows = connection.execute(stored.where(_columns.entry_key.in_(keys), _IS_WHOLE))
    known = {(row.entry_key, row.digest, row.is_lesson) for row in rows}
    return [
        one
        for entry in searched_texts(connection, keys)
        for one in texts_with_vector(entry)
        if (one.key, one.digest, one.is_lesson) not in known
        and (one.is_lesson or (one.key, "", False) not in known)
    ]


def put_vector(connection: Connection, one: EntryText, model: str, vector: Vector) -> None:
    """Store the vector of a text.

    An empty vector records that the model refuses this text, so that no search asks again.
    """
    row = {"entry_key": one.key, "digest": one.digest, "is_lesson": one.is_lesson, "model": model}
    row |= {"dimensions": len(vector), "vector": to_bytes(vector)}
    connection.execute(insert(entry_vectors).values(**row))


def delete_other_vectors(connection: Connection, model: str, length: int) -> None:
    """Delete vectors of another model or length; queue their entries, and those without vector."""
    unlike = or_(_columns.model != model, _columns.dimensions != length, ~_IS_WHOLE)
    deleted = delete(entry_vectors).where(unlike).returning(_columns.entry_key)
    lost = connection.execute(deleted).scalars().all()
    missing = connection.execute(select(entries.c.key).where(_LACKS_VECTOR)).scalars()
    if rows := [{"entry_key": key} for key in sorted({*missing, *lost})]:
        connection.execute(insert(outdated_entries), rows)


def count_missing(connection: Connection) -> int:
    """Return the number of entries that have no vector."""
    query = select(func.count()).select_from(entries).where(_LACKS_VECTOR)
    return connection.execute(query).scalar_one()


def load_vectors(
    connection: Connection, model: str, keys: Sequence[int]
) -> dict[int, list[tuple[int, list[float]]]]:
    """Return the vectors of these playbooks that an index of this model holds, with their ids."""
    query = select(_columns.id, _columns.entry_key, _columns.vector)
    query = query.where(_columns.entry_key.in_(keys), is_indexed(model)).order_by(_columns.id)
    found: dict[int, list[tuple[int, list[float]]]] = {}
    for row in connection.execute(query):
        found.setdefault(row.entry_key, []).append((row.id, from_bytes(row.vector)))
    return found


def nearest_playbooks(
    connection: Connection, model: str, query: Vector, conditions: Sequence[ColumnElement[bool]]
) -> list[tuple[int, float]]:
    """Return playbook keys with the distance of their nearest passage, the nearest first.

    This compares the query with every vector of the playbooks that meet the conditions.
    """
    of_model = (_columns.model == model, _columns.dimensions == len(query), _IS_WHOLE)
    stored = select(_columns.entry_key, _columns.vector).join(entries)
    stored = stored.where(IS_PLAYBOOK, ~_columns.is_lesson, *of_model, *conditions)
    rows = connection.execute(stored).all()
    distances = cosine_distances([row.vector for row in rows], query)
    best: dict[int, float] = {}
    for (key, _), distance in zip(rows, distances, strict=True):
        best[key] = min(distance, best.get(key, distance))
    return sorted(best.items(), key=lambda pair: (pair[1], pair[0]))


def lesson_distances(
    connection: Connection, key: int, model: str, query: Vector
) -> dict[str, float]:
    """Return the distance of each lesson of a playbook, by the digest of its text."""
    of_model = (_columns.model == model, _columns.dimensions == len(query), _IS_WHOLE)
    stored = select(_columns.digest, _columns.vector).where(_columns.entry_key == key, *of_model)
    rows = connection.execute(stored.where(_columns.is_lesson)).all()
    distances = cosine_distances([row.vector for row in rows], query)
    return dict(zip((row.digest for row in rows), distances, strict=True))


def is_indexed(model: str) -> ColumnElement[bool]:
    """Return the condition for vectors of this model that are as long as its newest one."""
    by_model = and_(_columns.model == model, _columns.dimensions > 0, _IS_WHOLE)
    newest = select(_columns.dimensions).where(by_model).order_by(_columns.id.desc())
    newest_length = newest.limit(1).scalar_subquery()
    return and_(by_model, ~_columns.is_lesson, _columns.dimensions == newest_length)


def to_bytes(vector: Vector) -> bytes:
    """Return the vector as little-endian 32-bit floats."""
    import numpy as np  # here, because it takes a tenth of a second

    return np.asarray(vector, dtype="<f4").tobytes()


def from_bytes(data: bytes) -> list[float]:
    """Return the vector that `to_bytes` packed."""
    import numpy as np

    numbers: list[float] = np.frombuffer(data, dtype="<f4").tolist()
    return numbers


def cosine_distances(vectors: Sequence[bytes], query: Vector) -> list[float]:
    """Return the cosine distance of each stored vector: 0 is identical, 2 is opposite."""
    import numpy as np

    target = np.asarray(query, dtype=np.float32)
    stored = np.frombuffer(b"".join(vectors), dtype="<f4").reshape(len(vectors), len(target))
    lengths = np.sqrt(np.vecdot(stored, stored)) * np.linalg.norm(target)
    # Not `@`: on a busy machine its threads wait for each other, fifty times as long.
    products = np.vecdot(stored, target)
    distances: list[float] = (1.0 - products / np.where(lengths > 0, lengths, 1.0)).tolist()
    return [round(distance, 6) for distance in distances]
