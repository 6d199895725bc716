"""Writes playbooks: content, tags, versions, word index and vector in one transaction."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import uuid4

from sqlalchemy import Connection, Engine, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from memory.content import content_json, content_of, embedding_text, slugify, validate_content
from memory.database import read_transaction, write_transaction
from memory.errors import PlaybookInvalid, StaleUpdate
from memory.playbooks import store
from memory.playbooks.index import PlaybookIndex
from memory.tables import outdated_playbooks, playbook_tags, playbook_words, playbooks, versions
from memory.types import Playbook, PlaybookContent, Vector
from memory.vectors import stored_vectors
from memory.words import word_impacts

WriteCheck = Callable[[Connection], None]
"""Runs in the transaction of a write, before it; raises if the write is not allowed."""


def no_check(_: Connection) -> None:
    """Allow every write."""


@dataclass(frozen=True, kw_only=True)
class Write:
    """Author, clock and precondition of a write."""

    source: str
    clock: Callable[[], datetime]
    check: WriteCheck = no_check
    expected_version: int | None = None
    """The version that the change was made from. None: the version that is stored now."""


class PlaybookIdentity(NamedTuple):
    """Id and slug of a playbook; an import keeps them."""

    id: str
    slug: str


def create(
    engine: Engine, index: PlaybookIndex, content: PlaybookContent, write: Write
) -> Playbook:
    """Validate, embed and insert a new playbook."""
    content = validate_content(content)
    text = _embedding_text(content)
    vectors = index.embed([text])
    with write_transaction(engine) as connection:
        write.check(connection)
        playbook = insert_playbook(connection, content, source=write.source, at=write.clock())
        _put_vector(connection, index, playbook.key, text, vectors)
    return playbook


def rewrite(
    engine: Engine,
    index: PlaybookIndex,
    ref: str,
    change: Callable[[PlaybookContent], PlaybookContent],
    write: Write,
) -> Playbook:
    """Change the content of a playbook, and embed it again if its embedded text changes."""
    with read_transaction(engine) as connection:
        before = store.get(connection, ref)
    content = validate_content(change(content_of(before)))
    text = _embedding_text(content)
    vectors = index.embed([text]) if text != _embedding_text(before) else None
    with write_transaction(engine) as connection:
        write.check(connection)
        after = update_playbook(
            connection,
            before,
            content,
            source=write.source,
            at=write.clock(),
            expected_version=write.expected_version,
        )
        _put_vector(connection, index, before.key, text, vectors)
    return after


def insert_playbook(
    connection: Connection,
    content: PlaybookContent,
    *,
    source: str,
    at: datetime,
    identity: PlaybookIdentity | None = None,
) -> Playbook:
    """Insert a new playbook. If its slug is taken, the start of its id is appended to it."""
    new = identity or PlaybookIdentity(str(uuid4()), slugify(content.title))
    row = {
        **content_json(content),
        "id": new.id,
        "version": 1,
        "source": source,
        "created_at": at,
        "updated_at": at,
    }
    key = _insert(connection, row, new.slug) or _insert(
        connection, row, f"{new.slug[:111]}-{new.id[:8]}"
    )
    if key is None:
        raise PlaybookInvalid(f"the slug {new.slug!r} is taken: give the playbook another title")
    _write_parts(connection, key, content, version=1, source=source, at=at)
    return store.by_key(connection, [key])[key]


def update_playbook(
    connection: Connection,
    playbook: Playbook,
    content: PlaybookContent,
    *,
    source: str,
    at: datetime,
    expected_version: int | None = None,
    version: int | None = None,
) -> Playbook:
    """Replace the content as the next version, or as `version` if that is higher.

    `content` was made from `playbook`, which must be at `expected_version`.

    Raises:
        StaleUpdate: the stored version is another one.
    """
    base = playbook.version if expected_version is None else expected_version
    new = max(base + 1, version or 0)
    is_unchanged = (playbooks.c.version == playbook.version, playbooks.c.version == base)
    statement = update(playbooks).where(playbooks.c.key == playbook.key, *is_unchanged)
    values = {**content_json(content), "version": new, "updated_at": at}
    if connection.execute(statement.values(**values)).rowcount != 1:
        now = store.get(connection, playbook.id).version
        raise StaleUpdate(
            f"playbook {playbook.slug!r} is at version {now}; your change was made from version "
            f"{base}. Read it again and repeat the change"
        )
    if _embedding_text(content) != _embedding_text(playbook):
        stored_vectors.delete_vector(connection, playbook.key)
    _write_parts(connection, playbook.key, content, version=new, source=source, at=at)
    return store.get(connection, playbook.id)


def delete_playbook(connection: Connection, ref: str) -> bool:
    """Delete a playbook, damaged or not, with all that belongs to it; False if there is none."""
    key = connection.execute(store.select_by_ref(ref).with_only_columns(playbooks.c.key)).scalar()
    if key is None:
        return False
    mark_outdated(connection, [key])
    connection.execute(delete(playbooks).where(playbooks.c.key == key))
    return True


def mark_outdated(connection: Connection, keys: Iterable[int]) -> None:
    """Queue these playbooks for the vector index, in the transaction of their change."""
    rows = [{"playbook_key": key} for key in keys]
    if rows:
        connection.execute(insert(outdated_playbooks), rows)


def write_words(connection: Connection, key: int, content: PlaybookContent) -> None:
    """Replace the word index of one playbook."""
    connection.execute(delete(playbook_words).where(playbook_words.c.playbook_key == key))
    rows = [
        {"word": word, "playbook_key": key, "impact": impact}
        for word, impact in word_impacts(content).items()
    ]
    if rows:
        connection.execute(insert(playbook_words), rows)


def _insert(connection: Connection, row: dict[str, object], slug: str) -> int | None:
    """Insert a row; return its key, or None if the slug is taken."""
    if connection.execute(select(playbooks.c.key).where(playbooks.c.slug == slug)).first():
        return None
    statement = insert(playbooks).values(**row, slug=slug).returning(playbooks.c.key)
    try:
        with connection.begin_nested():
            return int(connection.execute(statement).scalar_one())
    except IntegrityError:
        return None


def _write_parts(
    connection: Connection,
    key: int,
    content: PlaybookContent,
    *,
    version: int,
    source: str,
    at: datetime,
) -> None:
    connection.execute(delete(playbook_tags).where(playbook_tags.c.playbook_key == key))
    if content.tags:
        rows = [{"playbook_key": key, "tag": tag} for tag in content.tags]
        connection.execute(insert(playbook_tags), rows)
    values = {"version": version, "at": at, "source": source, "content": content_json(content)}
    connection.execute(insert(versions).values(playbook_key=key, **values))
    write_words(connection, key, content)
    mark_outdated(connection, [key])


def _put_vector(
    connection: Connection,
    index: PlaybookIndex,
    key: int,
    text: str,
    vectors: Sequence[Vector] | None,
) -> None:
    if vectors is not None and index.model is not None:
        stored_vectors.put_vector(connection, key, index.model, text, vectors[0])


def _embedding_text(content: PlaybookContent) -> str:
    return embedding_text(content.title, content.use_case)
