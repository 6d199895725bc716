"""The vectors of lessons, by which those that fit a task come first."""

from sqlalchemy import Engine

from memory.database import read_transaction, write_transaction
from memory.playbooks import store
from memory.playbooks.index import PlaybookIndex
from memory.vectors import stored_vectors


def embed_lessons(engine: Engine, index: PlaybookIndex, ref: str) -> None:
    """Make the vectors that a playbook's lessons lack, if there is a model and it answers.

    Raises:
        PlaybookNotFound: there is no such playbook.
    """
    model = index.model
    if model is None:
        return
    with read_transaction(engine) as connection:
        key = store.get(connection, ref).key
        waiting = stored_vectors.lessons_to_embed(connection, model, key)
    made = index.embed([item.text for item in waiting])
    with write_transaction(engine) as connection:
        for item, vector in zip(waiting, made or (), strict=bool(made)):
            stored_vectors.put_lesson_vector(connection, item.key, model, vector)
