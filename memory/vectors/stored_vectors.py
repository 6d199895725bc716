"""Embeddings of playbooks and lessons in the database, from which the index can be rebuilt."""

from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    and_,
    delete,
    exists,
    func,
    insert,
    or_,
    select,
    update,
)

from memory.content import embedding_text
from memory.tables import lessons, outdated_playbooks, playbook_vectors, playbooks
from memory.types import Vector

_columns = playbook_vectors.c
_IS_WHOLE = func.length(_columns.vector) == 4 * _columns.dimensions  # see `to_bytes`
_HAS_VECTOR = and_(_columns.playbook_key == playbooks.c.key, _IS_WHOLE)
_TEXTS = select(
    playbooks.c.key, playbooks.c.title, playbooks.c.use_case, _columns.digest
).outerjoin(playbook_vectors, _HAS_VECTOR)


class TextToEmbed(NamedTuple):
    """A text that needs a vector, and the key of its playbook, lesson or note."""

    key: int
    text: str


def put_vector(connection: Connection, key: int, model: str, text: str, vector: Vector) -> None:
    """Store a playbook's vector in place of its last one.

    An empty vector records that the model refuses this text, so that no search asks again.
    """
    delete_vector(connection, key)
    connection.execute(
        insert(playbook_vectors).values(
            playbook_key=key,
            model=model,
            dimensions=len(vector),
            digest=text_digest(text),
            vector=to_bytes(vector),
        )
    )


def delete_vector(connection: Connection, key: int) -> None:
    """Delete the vector of a playbook."""
    connection.execute(delete(playbook_vectors).where(_columns.playbook_key == key))


def texts_to_embed(connection: Connection, keys: Sequence[int]) -> list[TextToEmbed]:
    """Return the texts of those playbooks that have no vector, or one of an earlier text."""
    query = _TEXTS.where(playbooks.c.key.in_(keys)).order_by(playbooks.c.key)
    found = _texts_and_digests(connection, query)
    return [item for item, digest in found if digest != text_digest(item.text)]


def with_outdated_vector(connection: Connection) -> list[int]:
    """Return the keys of playbooks whose vector was made of an earlier text."""
    found = _texts_and_digests(connection, _TEXTS.where(_columns.digest.is_not(None)))
    return [item.key for item, digest in found if digest != text_digest(item.text)]


def delete_other_vectors(connection: Connection, model: str, length: int) -> None:
    """Delete vectors of another model, of another length, or of an earlier text.

    Playbooks without a vector are queued for the next update of the index.
    """
    unlike = or_(_columns.model != model, _columns.dimensions != length)
    connection.execute(delete(playbook_vectors).where(unlike))
    for key in with_outdated_vector(connection):
        delete_vector(connection, key)
    unlike = or_(lessons.c.model != model, func.length(lessons.c.vector) != 4 * length)
    connection.execute(update(lessons).where(unlike).values(model=None, vector=None))
    queue_missing(connection)


def queue_missing(connection: Connection) -> None:
    """Queue every playbook without a whole vector for the next update of the index."""
    connection.execute(delete(playbook_vectors).where(~_IS_WHOLE))
    missing = select(playbooks.c.key).where(~exists().where(_HAS_VECTOR))
    connection.execute(insert(outdated_playbooks).from_select(["playbook_key"], missing))


def count_missing(connection: Connection) -> int:
    """Return how many playbooks have no whole vector, except those that the model refused."""
    query = select(func.count()).select_from(playbooks).where(~exists().where(_HAS_VECTOR))
    return connection.execute(query).scalar_one()


def refused_slugs(connection: Connection) -> list[str]:
    """Return the slugs of playbooks whose text the model refused."""
    query = select(playbooks.c.slug).join(playbook_vectors).where(_columns.dimensions == 0)
    return list(connection.execute(query.order_by(playbooks.c.key)).scalars())


def count_by_model(connection: Connection) -> dict[str, int]:
    """Return the number of vectors of each model."""
    query = select(_columns.model, func.count()).where(_columns.dimensions > 0)
    rows = connection.execute(query.group_by(_columns.model))
    return {str(model): int(number) for model, number in rows}


def load_vectors(connection: Connection, keys: Sequence[int], model: str) -> dict[int, list[float]]:
    """Return the vectors that this model made of these playbooks, all of one length."""
    query = select(_columns.playbook_key, _columns.vector)
    query = query.where(_columns.playbook_key.in_(keys), *_comparable(model))
    return {row.playbook_key: from_bytes(row.vector) for row in connection.execute(query)}


def indexed_keys(connection: Connection, model: str) -> tuple[set[int], set[int]]:
    """Return the keys that a complete index of this model holds: live ones, archived ones."""
    query = select(playbooks.c.key, playbooks.c.status)
    query = query.join(playbook_vectors).where(*_comparable(model))
    live: set[int] = set()
    archived: set[int] = set()
    for key, status in connection.execute(query):
        (archived if status == "archived" else live).add(key)
    return live, archived


def put_lesson_vector(connection: Connection, lesson: int, model: str, vector: Vector) -> None:
    """Store a lesson's vector."""
    values = {"model": model, "vector": to_bytes(vector)}
    connection.execute(update(lessons).where(lessons.c.id == lesson).values(**values))


def load_lesson_vectors(
    connection: Connection, ids: Sequence[int], model: str
) -> dict[int, list[float]]:
    """Return the vectors that this model made of these lessons."""
    is_whole = func.length(lessons.c.vector) % 4 == 0
    query = select(lessons.c.id, lessons.c.vector)
    query = query.where(lessons.c.id.in_(ids), lessons.c.model == model, is_whole)
    return {row.id: from_bytes(row.vector) for row in connection.execute(query)}


def lessons_to_embed(connection: Connection, model: str, key: int) -> list[TextToEmbed]:
    """Return the texts of a playbook's lessons that have no vector of this model."""
    query = select(lessons.c.id, lessons.c.text).where(lessons.c.playbook_key == key)
    query = query.where(or_(lessons.c.model.is_(None), lessons.c.model != model))
    return [TextToEmbed(row.id, row.text) for row in connection.execute(query)]


def to_bytes(vector: Vector) -> bytes:
    """Return the vector as little-endian 32-bit floats."""
    import numpy as np

    return np.asarray(vector, dtype="<f4").tobytes()


def from_bytes(data: bytes) -> list[float]:
    """Return the vector that `to_bytes` packed."""
    import numpy as np

    numbers: list[float] = np.frombuffer(data, dtype="<f4").tolist()
    return numbers


def text_digest(text: str) -> str:
    """Return a hash of an embedded text: a vector with another digest is out of date."""
    return sha256(text.encode("utf-8", "replace")).hexdigest()[:32]


def _texts_and_digests(
    connection: Connection, query: "Select[tuple[int, str, str, str]]"
) -> Iterator[tuple[TextToEmbed, str | None]]:
    for key, title, use_case, digest in connection.execute(query):
        yield TextToEmbed(key, embedding_text(title, use_case)), digest


def _comparable(model: str) -> tuple[ColumnElement[bool], ...]:
    """Return conditions for vectors of this model that are as long as its newest one."""
    by_model = and_(_columns.model == model, _columns.dimensions > 0, _IS_WHOLE)
    newest = select(_columns.dimensions).where(by_model).order_by(_columns.playbook_key.desc())
    return by_model, _columns.dimensions == newest.limit(1).scalar_subquery()
