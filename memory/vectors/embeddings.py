"""Embeddings of texts: made by a model, and stored in the database, which keeps every vector."""

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from math import isfinite
from typing import NamedTuple

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Text,
    and_,
    cast,
    delete,
    exists,
    func,
    insert,
    or_,
    select,
    update,
)

from contracts.errors import HarnessError, ModelRefused
from memory.content import passages
from memory.tables import lessons, outdated_playbooks, playbook_vectors, playbooks
from memory.types import Embedder, Vector

EMBEDDED_CHARACTERS = 4_000
"""Characters of a text that are embedded. Providers refuse longer texts."""

PROBE_TEXT = "a playbook"
"""A text that no working model refuses."""

_columns = playbook_vectors.c
# A vector cut short by a damaged disk is embedded again: numpy could not read it.
_IS_WHOLE = func.length(_columns.vector) == 4 * _columns.dimensions
_HAS_VECTOR = and_(_columns.playbook_key == playbooks.c.key, _IS_WHOLE)
_HAS_NO_VECTOR = ~exists().where(_HAS_VECTOR)


class TextToEmbed(NamedTuple):
    """A text that needs a vector, and the key of its playbook, lesson or note."""

    key: int
    text: str


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


def put_vector(
    connection: Connection, owner: "Column[int]", key: int, model: str, vector: Vector
) -> None:
    """Store the vector of a note or an example; `owner` is the key column of its table.

    An empty vector records that the model refuses this text, so that no search asks again.
    """
    connection.execute(delete(owner.table).where(owner == key))
    row = {"model": model, "dimensions": len(vector), "vector": to_bytes(vector)}
    connection.execute(insert(owner.table).values({owner.name: key, **row}))


def playbook_passages(
    connection: Connection, keys: Sequence[int], *, lock: bool = False
) -> dict[int, list[str]]:
    """Return the passages of these playbooks by key.

    With `lock` they stay as they are until the transaction ends, and playbooks that another
    transaction changes are left out.
    """
    columns = playbooks.c
    # As text: one row whose JSON is damaged must not stop the others.
    steps = cast(columns.steps, Text).label("steps")
    query = select(columns.key, columns.title, columns.use_case, columns.process, steps)
    query = query.where(columns.key.in_(keys)).order_by(columns.key)
    if lock:
        query = query.with_for_update(key_share=True, skip_locked=True)
    rows = connection.execute(query).all()
    learned: dict[int, list[str]] = {}
    taught = select(lessons.c.playbook_key, lessons.c.text).where(lessons.c.playbook_key.in_(keys))
    for key, text in connection.execute(taught.order_by(lessons.c.id)):
        learned.setdefault(key, []).append(text)
    return {
        row.key: passages(
            row.title, row.use_case, row.process, _parse_steps(row.steps), learned.get(row.key, ())
        )
        for row in rows
    }


def _parse_steps(text: str) -> list[Mapping[str, object]]:
    try:
        found = json.loads(text)
    except ValueError:
        return []
    return [step for step in found if isinstance(step, dict)] if isinstance(found, list) else []


def texts_to_embed(connection: Connection, keys: Sequence[int]) -> list[TextToEmbed]:
    """Return the passages of these playbooks that have no vector."""
    digests: dict[int, set[str]] = {}
    stored = select(_columns.playbook_key, _columns.digest)
    for key, digest in connection.execute(stored.where(_columns.playbook_key.in_(keys), _IS_WHOLE)):
        digests.setdefault(key, set()).add(digest)
    return [
        TextToEmbed(key, text)
        for key, texts in playbook_passages(connection, keys).items()
        for text in dict.fromkeys(texts)
        if digests.get(key, set()).isdisjoint(("", text_digest(text)))
    ]


def put_passage(connection: Connection, item: TextToEmbed, model: str, vector: Vector) -> None:
    """Store the vector of one passage."""
    digest = text_digest(item.text)
    row = {"playbook_key": item.key, "digest": digest, "model": model, "dimensions": len(vector)}
    connection.execute(insert(playbook_vectors).values(**row, vector=to_bytes(vector)))


def delete_stale_vectors(connection: Connection, keys: Sequence[int]) -> None:
    """Delete the vectors of texts that are no longer passages of these playbooks."""
    for key, texts in playbook_passages(connection, keys).items():
        is_stale = _columns.digest.not_in([text_digest(text) for text in texts])
        stale = delete(playbook_vectors).where(_columns.playbook_key == key, is_stale)
        connection.execute(stale)


def text_digest(text: str) -> str:
    """Return the digest by which the vector of a passage is found."""
    return sha256(text.encode("utf-8", "replace")).hexdigest()[:32]


def delete_other_vectors(connection: Connection, model: str, length: int) -> None:
    """Delete vectors of another model or of another length.

    Playbooks without a vector are queued for the next update of the index.
    """
    unlike = or_(_columns.model != model, _columns.dimensions != length)
    connection.execute(delete(playbook_vectors).where(unlike))
    unlike = or_(lessons.c.model != model, func.length(lessons.c.vector) != 4 * length)
    connection.execute(update(lessons).where(unlike).values(model=None, vector=None))
    queue_missing(connection)


def queue_missing(connection: Connection) -> None:
    """Queue every playbook without a whole vector for the next update of the index."""
    connection.execute(delete(playbook_vectors).where(~_IS_WHOLE))
    missing = select(playbooks.c.key).where(_HAS_NO_VECTOR)
    connection.execute(insert(outdated_playbooks).from_select(["playbook_key"], missing))


def count_missing(connection: Connection) -> int:
    """Return the number of playbooks that have no vector."""
    query = select(func.count()).select_from(playbooks).where(_HAS_NO_VECTOR)
    return connection.execute(query).scalar_one()


def load_vectors(
    connection: Connection, model: str, keys: Sequence[int]
) -> dict[int, list[tuple[int, list[float]]]]:
    """Return the vectors of these playbooks that an index of this model holds, with their ids."""
    query = select(_columns.id, _columns.playbook_key, _columns.vector)
    query = query.where(_columns.playbook_key.in_(keys), is_indexed(model)).order_by(_columns.id)
    found: dict[int, list[tuple[int, list[float]]]] = {}
    for row in connection.execute(query):
        found.setdefault(row.playbook_key, []).append((row.id, from_bytes(row.vector)))
    return found


def nearest_playbooks(
    connection: Connection, model: str, query: Vector, conditions: Sequence[ColumnElement[bool]]
) -> list[tuple[int, float]]:
    """Return playbook keys with the distance of their nearest passage, the nearest first.

    This compares the query with every vector of the playbooks that meet the conditions.
    """
    of_model = (_columns.model == model, _columns.dimensions == len(query), _IS_WHOLE)
    stored = select(_columns.playbook_key, _columns.vector).join(playbooks)
    rows = connection.execute(stored.where(*of_model, *conditions)).all()
    distances = cosine_distances([row.vector for row in rows], query)
    best: dict[int, float] = {}
    for (key, _), distance in zip(rows, distances, strict=True):
        best[key] = min(distance, best.get(key, distance))
    return sorted(best.items(), key=lambda pair: (pair[1], pair[0]))


def is_indexed(model: str) -> ColumnElement[bool]:
    """Return the condition for vectors of this model that are as long as its newest one."""
    by_model = and_(_columns.model == model, _columns.dimensions > 0, _IS_WHOLE)
    newest = select(_columns.dimensions).where(by_model).order_by(_columns.id.desc())
    return and_(by_model, _columns.dimensions == newest.limit(1).scalar_subquery())


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
