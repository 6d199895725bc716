"""Embeddings as the database keeps them, so that an index is rebuilt without a model."""

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

_WHOLE = func.length(playbook_vectors.c.vector) == 4 * playbook_vectors.c.dimensions
"""As long as it was when it was kept, four bytes each number: see `to_bytes`."""

_KEPT = and_(playbook_vectors.c.playbook_key == playbooks.c.key, _WHOLE)
_EMBEDDED = select(
    playbooks.c.key, playbooks.c.title, playbooks.c.use_case, playbook_vectors.c.digest
).outerjoin(playbook_vectors, _KEPT)


class TextToEmbed(NamedTuple):
    """A playbook that has no vector of its text, and the text to make it from."""

    key: int
    text: str


def put_vector(connection: Connection, key: int, model: str, text: str, vector: Vector) -> None:
    """Keep a playbook's vector, instead of any it had; an empty one says that there can be none.

    Nobody is asked again for a vector of that text before `forget_others`.
    """
    connection.execute(delete(playbook_vectors).where(playbook_vectors.c.playbook_key == key))
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
    """Drop a vector whose text has changed."""
    connection.execute(delete(playbook_vectors).where(playbook_vectors.c.playbook_key == key))


def texts_to_embed(connection: Connection, keys: Sequence[int]) -> list[TextToEmbed]:
    """Those of the playbooks that have no vector, or one of a text that they had before."""
    asked = _EMBEDDED.where(playbooks.c.key.in_(keys)).order_by(playbooks.c.key)
    return [text for text, kept in _texts(connection, asked) if kept != text_digest(text.text)]


def with_outdated_vector(connection: Connection) -> list[int]:
    """Playbooks whose vector was made of a text that they had before."""
    found = _texts(connection, _EMBEDDED.where(playbook_vectors.c.digest.is_not(None)))
    return [text.key for text, kept in found if kept != text_digest(text.text)]


def delete_other_vectors(connection: Connection, model: str, length: int) -> None:
    """Drop what another model made, or this one when its vectors had another length or text.

    Every playbook without a vector is then for the next who brings the index up to date.
    """
    unlike = or_(playbook_vectors.c.model != model, playbook_vectors.c.dimensions != length)
    connection.execute(delete(playbook_vectors).where(unlike))
    for key in with_outdated_vector(connection):
        delete_vector(connection, key)
    unlike = or_(lessons.c.model != model, func.length(lessons.c.vector) != 4 * length)
    connection.execute(update(lessons).where(unlike).values(model=None, vector=None))
    queue_missing(connection)


def queue_missing(connection: Connection) -> None:
    """Leave every playbook without a whole vector to the next who brings the index up to date."""
    connection.execute(delete(playbook_vectors).where(~_WHOLE))
    bare = select(playbooks.c.key).where(~exists().where(_KEPT))
    connection.execute(insert(outdated_playbooks).from_select(["playbook_key"], bare))


def count_missing(connection: Connection) -> int:
    """How many playbooks have no whole vector, though no model has refused them one."""
    query = select(func.count()).select_from(playbooks).where(~exists().where(_KEPT))
    return connection.execute(query).scalar_one()


def refused_slugs(connection: Connection) -> list[str]:
    """The slugs of playbooks whose text the model does not take."""
    query = (
        select(playbooks.c.slug).join(playbook_vectors).where(playbook_vectors.c.dimensions == 0)
    )
    return list(connection.execute(query.order_by(playbooks.c.key)).scalars())


def count_by_model(connection: Connection) -> dict[str, int]:
    """How many vectors there are of each model."""
    query = select(playbook_vectors.c.model, func.count()).where(playbook_vectors.c.dimensions > 0)
    query = query.group_by(playbook_vectors.c.model)
    return {str(model): int(number) for model, number in connection.execute(query)}


def load_vectors(connection: Connection, keys: Sequence[int], model: str) -> dict[int, list[float]]:
    """The vectors that this model made of these playbooks; all of one length."""
    query = select(playbook_vectors.c.playbook_key, playbook_vectors.c.vector)
    query = query.where(playbook_vectors.c.playbook_key.in_(keys), *_alike(model))
    return {row.playbook_key: from_bytes(row.vector) for row in connection.execute(query)}


def indexed_keys(connection: Connection, model: str) -> tuple[set[int], set[int]]:
    """The playbooks that an index of this model holds: live ones, archived ones."""
    query = select(playbooks.c.key, playbooks.c.status).join(playbook_vectors).where(*_alike(model))
    found: tuple[set[int], set[int]] = (set(), set())
    for key, status in connection.execute(query):
        found[status == "archived"].add(key)
    return found


def put_lesson_vector(connection: Connection, lesson: int, model: str, vector: Vector) -> None:
    """Keep a lesson's vector."""
    values = {"model": model, "vector": to_bytes(vector)}
    connection.execute(update(lessons).where(lessons.c.id == lesson).values(**values))


def load_lesson_vectors(
    connection: Connection, ids: Sequence[int], model: str
) -> dict[int, list[float]]:
    """The vectors that this model made of these lessons."""
    query = select(lessons.c.id, lessons.c.vector)
    whole = func.length(lessons.c.vector) % 4 == 0
    query = query.where(lessons.c.id.in_(ids), lessons.c.model == model, whole)
    return {row.id: from_bytes(row.vector) for row in connection.execute(query)}


def lessons_to_embed(connection: Connection, model: str, key: int) -> list[TextToEmbed]:
    """Lessons of a playbook that have no vector of this model."""
    query = select(lessons.c.id, lessons.c.text).where(lessons.c.playbook_key == key)
    query = query.where(or_(lessons.c.model.is_(None), lessons.c.model != model))
    return [TextToEmbed(row.id, row.text) for row in connection.execute(query)]


def _texts(
    connection: Connection, query: "Select[tuple[int, str, str, str]]"
) -> Iterator[tuple[TextToEmbed, str | None]]:
    for key, title, use_case, kept in connection.execute(query):
        yield TextToEmbed(key, embedding_text(title, use_case)), kept


def _alike(model: str) -> tuple[ColumnElement[bool], ...]:
    """Made by this model, as long as its newest: an index takes one length only."""
    made = and_(playbook_vectors.c.model == model, playbook_vectors.c.dimensions > 0, _WHOLE)
    newest = playbook_vectors.c.playbook_key.desc()
    length = (
        select(playbook_vectors.c.dimensions)
        .where(made)
        .order_by(newest)
        .limit(1)
        .scalar_subquery()
    )
    return made, playbook_vectors.c.dimensions == length


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
