"""Playbooks written: what they hold, and the vector that they are found by, in one transaction."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, Engine

from memory.content import content_of, embedding_text, validate_content
from memory.database import read_transaction, write_transaction
from memory.playbooks import store
from memory.playbooks.index import PlaybookIndex
from memory.types import Playbook, PlaybookContent, Vector
from memory.vectors import stored_vectors

WriteCheck = Callable[[Connection], None]
"""What must hold in the transaction of a write, before it; raises where it does not."""


def no_check(_: Connection) -> None:
    """The check that is always met."""


@dataclass(frozen=True, kw_only=True)
class Write:
    """Who writes, by which clock, and on what condition."""

    source: str
    clock: Callable[[], datetime]
    check: WriteCheck = no_check
    expected: int | None = None
    """The version that the change was made from. None: the one that is read here."""


def create(
    engine: Engine, index: PlaybookIndex, content: PlaybookContent, write: Write
) -> Playbook:
    """Keep a new playbook."""
    content = validate_content(content)
    text = embedding_text(content.title, content.use_case)
    made = index.embed([text])
    with write_transaction(engine) as connection:
        write.check(connection)
        playbook = store.add(connection, content, source=write.source, at=write.clock())
        _keep_vector(connection, index, playbook.key, text, made)
    return playbook


def rewrite(
    engine: Engine,
    index: PlaybookIndex,
    ref: str,
    change: Callable[[PlaybookContent], PlaybookContent],
    write: Write,
) -> Playbook:
    """Change what a playbook holds; its vector is made anew where its text is another."""
    with read_transaction(engine) as connection:
        before = store.get(connection, ref)
    content = validate_content(change(content_of(before)))
    old = embedding_text(before.title, before.use_case)
    text = embedding_text(content.title, content.use_case)
    made = index.embed([text]) if text != old else None
    with write_transaction(engine) as connection:
        write.check(connection)
        after = store.change(
            connection,
            before,
            content,
            source=write.source,
            at=write.clock(),
            expected=write.expected,
        )
        if text != old:
            _keep_vector(connection, index, before.key, text, made)
    return after


def _keep_vector(
    connection: Connection, index: PlaybookIndex, key: int, text: str, made: Sequence[Vector] | None
) -> None:
    if made is not None and index.model is not None:
        stored_vectors.put_vector(connection, key, index.model, text, made[0])
