"""Embeddings as the database keeps them, so that an index is rebuilt without a model."""

from collections.abc import Sequence
from hashlib import sha256
from typing import NamedTuple

from sqlalchemy import Connection, delete, func, insert, or_, select, update

from memory.content import embedded_text
from memory.tables import lessons, playbooks, vectors
from memory.types import Vector


class Unembedded(NamedTuple):
    """A playbook that has no vector of the model in use, and the text to make it from."""

    key: int
    text: str


def put(connection: Connection, key: int, model: str, text: str, vector: Vector) -> None:
    """Keep a playbook's vector, instead of any it had."""
    connection.execute(delete(vectors).where(vectors.c.playbook_key == key))
    connection.execute(
        insert(vectors).values(
            playbook_key=key,
            model=model,
            dimensions=len(vector),
            digest=text_digest(text),
            vector=to_bytes(vector),
        )
    )


def forget(connection: Connection, key: int) -> None:
    """Drop a vector whose text has changed."""
    connection.execute(delete(vectors).where(vectors.c.playbook_key == key))


def unembedded(connection: Connection, model: str, keys: Sequence[int]) -> list[Unembedded]:
    """Those of the playbooks whose vector is missing, or made by another model or length.

    A vector whose length is not that of the newest vector of its model counts as another's.
    """
    length = dimensions(connection, model)
    same = (vectors.c.model == model) & (vectors.c.dimensions == length)
    query = (
        select(playbooks.c.key, playbooks.c.title, playbooks.c.use_case)
        .outerjoin(vectors, vectors.c.playbook_key == playbooks.c.key)
        .where(playbooks.c.key.in_(keys), or_(vectors.c.model.is_(None), ~same))
        .order_by(playbooks.c.key)
    )
    return [
        Unembedded(row.key, embedded_text(row.title, row.use_case))
        for row in connection.execute(query)
    ]


def dimensions(connection: Connection, model: str) -> int | None:
    """How long this model's vectors are; None when there is none yet."""
    newest = vectors.c.playbook_key.desc()
    query = select(vectors.c.dimensions).where(vectors.c.model == model).order_by(newest).limit(1)
    return connection.execute(query).scalar()


def first_model(connection: Connection) -> str | None:
    """The model of the oldest playbook's vector; None when there is no vector."""
    query = select(vectors.c.model).order_by(vectors.c.playbook_key).limit(1)
    return connection.execute(query).scalar()


def by_model(connection: Connection) -> dict[str, int]:
    """How many vectors there are of each model."""
    query = select(vectors.c.model, func.count()).group_by(vectors.c.model)
    return {str(model): int(number) for model, number in connection.execute(query)}


def load(connection: Connection, keys: Sequence[int], model: str) -> dict[int, list[float]]:
    """The vectors that this model made of these playbooks."""
    query = select(vectors.c.playbook_key, vectors.c.vector)
    query = query.where(vectors.c.playbook_key.in_(keys), vectors.c.model == model)
    return {row.playbook_key: from_bytes(row.vector) for row in connection.execute(query)}


def put_lesson(connection: Connection, lesson: int, model: str, vector: Vector) -> None:
    """Keep a lesson's vector."""
    values = {"model": model, "vector": to_bytes(vector)}
    connection.execute(update(lessons).where(lessons.c.id == lesson).values(**values))


def lesson_vectors(
    connection: Connection, ids: Sequence[int], model: str
) -> dict[int, list[float]]:
    """The vectors that this model made of these lessons."""
    query = select(lessons.c.id, lessons.c.vector)
    query = query.where(lessons.c.id.in_(ids), lessons.c.model == model)
    return {row.id: from_bytes(row.vector) for row in connection.execute(query)}


def unembedded_lessons(connection: Connection, model: str, key: int) -> list[Unembedded]:
    """Lessons of a playbook that have no vector of this model."""
    query = select(lessons.c.id, lessons.c.text).where(lessons.c.playbook_key == key)
    query = query.where(or_(lessons.c.model.is_(None), lessons.c.model != model))
    return [Unembedded(row.id, row.text) for row in connection.execute(query)]


def to_bytes(vector: Vector) -> bytes:
    """Little-endian 32-bit floats."""
    import numpy as np

    return np.asarray(vector, dtype="<f4").tobytes()


def from_bytes(data: bytes) -> list[float]:
    """The vector that `to_bytes` packed."""
    import numpy as np

    numbers: list[float] = np.frombuffer(data, dtype="<f4").tolist()
    return numbers


def text_digest(text: str) -> str:
    """Fingerprint of an embedded text; any change of it means a new vector."""
    return sha256(text.encode("utf-8", "replace")).hexdigest()[:32]
