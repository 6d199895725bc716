"""Writes playbooks: entry, tags and word index in one transaction; their lessons."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import uuid4

from sqlalchemy import Connection, delete, func, insert, select
from sqlalchemy.exc import IntegrityError

from memory.content import (
    content_json,
    lesson_digest,
    sanitize_text,
    slugify,
)
from memory.database import lock_until_commit
from memory.entries import change_entry, insert_entry, stale_update
from memory.errors import EntryInvalid
from memory.indexing import index_entries
from memory.playbooks import store
from memory.tables import entries, lessons, playbook_tags
from memory.types import Playbook, PlaybookContent

WriteCheck = Callable[[Connection], None]
"""Runs in the transaction of a write, before it; raises if the write is not allowed."""


MAX_LESSONS_PER_RUN = 3
"""Lessons that one run, or one reflection, may add."""

LESSON_LIMIT = 1_000
"""Characters stored of a lesson."""


def no_check(_: Connection) -> None:
    """Allow every write."""


def insert_playbook(
    connection: Connection,
    content: PlaybookContent,
    *,
    source: str,
    at: datetime,
    id_: str | None = None,
    slug: str | None = None,
) -> Playbook:
    """Insert a new playbook. If its slug is taken, the start of its id is appended to it."""
    slug, id_ = slug or slugify(content.title), id_ or str(uuid4())
    # 111 characters, a hyphen and eight of the id fill the column.
    for name in (slug, f"{slug[:111]}-{id_[:8]}"):
        columns = {**playbook_columns(content), "id": id_, "slug": name}
        key = insert_entry(connection, "playbook", columns, source=source, at=at)
        if key is not None:
            _write_parts(connection, key, content)
            return store.by_key(connection, [key])[key]
    raise EntryInvalid(f"the slug {slug!r} is taken: give the playbook another title")


def update_playbook(
    connection: Connection,
    playbook: Playbook,
    content: PlaybookContent,
    *,
    source: str,
    at: datetime,
    base: int | None = None,
    version: int | None = None,
) -> Playbook:
    """Replace the content as the next version, or as `version` if that is higher.

    `content` was made from `playbook`, which must be at version `base`.

    Raises:
        StaleUpdate: the stored version is another one.
    """
    name, now = f"playbook {playbook.slug!r}", playbook.version
    if base not in (None, now):
        raise stale_update(name, base, now)
    columns = playbook_columns(content)
    change_entry(
        connection,
        playbook.key,
        columns,
        name=name,
        base=now,
        source=source,
        at=at,
        version=version,
    )
    _write_parts(connection, playbook.key, content)
    return store.get(connection, playbook.id)


def playbook_columns(content: PlaybookContent) -> dict[str, object]:
    """Return what the table of entries holds of the content."""
    return {
        "content": content_json(content),
        "text": content.title,
        "status": content.status,
        "category": content.category,
    }


def delete_playbook(connection: Connection, ref: str) -> bool:
    """Delete a playbook, damaged or not, with all that belongs to it; False if there is none."""
    key = connection.execute(store.select_by_ref(ref).with_only_columns(entries.c.key)).scalar()
    if key is None:
        return False
    # The index learns of a deletion by the missing row.
    index_entries(connection, [key])
    connection.execute(delete(entries).where(entries.c.key == key))
    return True


def _write_parts(connection: Connection, key: int, content: PlaybookContent) -> None:
    connection.execute(delete(playbook_tags).where(playbook_tags.c.playbook_key == key))
    if content.tags:
        rows = [{"playbook_key": key, "tag": tag} for tag in content.tags]
        connection.execute(insert(playbook_tags), rows)
    index_entries(connection, [key])


class RejectedLesson(NamedTuple):
    """A lesson, or the end of one, that was not stored."""

    text: str
    reason: str


class AddedLessons(NamedTuple):
    """Result of adding lessons."""

    added: list[str]
    rejected: list[RejectedLesson]


def add_lessons(
    connection: Connection,
    key: int,
    texts: Sequence[str],
    *,
    run_id: str | None,
    at: datetime,
    approved: bool = False,
) -> AddedLessons:
    """Add lessons that the playbook does not have yet.

    A run may add three over all its reflections; a person who approved these texts may add three
    at a time. Texts that differ only in case, spaces and final punctuation are the same lesson.
    """
    if run_id is not None:
        lock_until_commit(connection, f"run {run_id}")
    by_run = run_id is not None and not approved
    of_run = select(func.count()).select_from(lessons).where(lessons.c.run_id == run_id)
    used = connection.execute(of_run).scalar_one() if by_run else 0
    free = MAX_LESSONS_PER_RUN - used
    per = f"for run {run_id!r}" if by_run else "at a time"
    result = AddedLessons([], [])
    known = _digests(connection, key)
    for given in texts:
        whole = sanitize_text(given).strip()
        text, rest = whole[:LESSON_LIMIT], whole[LESSON_LIMIT:]
        if len(result.added) >= free:
            reason = f"at most {MAX_LESSONS_PER_RUN} lessons are stored {per}"
            result.rejected.append(RejectedLesson(whole, reason))
        elif not text or not _insert_lesson(connection, key, text, known, run_id, at):
            reason = "the playbook has this lesson" if text else "it is empty"
            result.rejected.append(RejectedLesson(whole, reason))
        else:
            result.added.append(text)
            if rest:
                reason = f"a lesson has at most {LESSON_LIMIT:,} characters"
                result.rejected.append(RejectedLesson(rest, reason))
    if result.added:
        index_entries(connection, [key])
    return result


def remove_lessons(connection: Connection, key: int, ids: Sequence[int]) -> None:
    """Remove lessons of a playbook."""
    chosen = (lessons.c.playbook_key == key, lessons.c.id.in_(ids))
    connection.execute(delete(lessons).where(*chosen))
    index_entries(connection, [key])


def missing_lessons(connection: Connection, key: int, texts: Iterable[str]) -> set[str]:
    """Return those of these texts that are not lessons of the playbook."""
    known = _digests(connection, key)
    stored = {text: sanitize_text(text).strip()[:LESSON_LIMIT] for text in texts}
    return {
        text for text, lesson in stored.items() if lesson and lesson_digest(lesson) not in known
    }


def import_lessons(
    connection: Connection, key: int, texts: Sequence[tuple[str, str | None]], at: datetime
) -> None:
    """Add lessons of another store, each with the run that it came from."""
    known = _digests(connection, key) if texts else set()
    for text, run_id in texts:
        _insert_lesson(connection, key, sanitize_text(text)[:LESSON_LIMIT], known, run_id, at)
    if texts:
        index_entries(connection, [key])


def _insert_lesson(
    connection: Connection, key: int, text: str, known: set[str], run_id: str | None, at: datetime
) -> bool:
    digest = lesson_digest(text)
    if digest in known:
        return False
    known.add(digest)
    values = {"playbook_key": key, "text": text, "digest": digest, "run_id": run_id, "at": at}
    try:
        with connection.begin_nested():
            connection.execute(insert(lessons).values(**values))
    except IntegrityError:
        return False
    return True


def _digests(connection: Connection, key: int) -> set[str]:
    """Return the digests of a playbook's lessons.

    Computed from the texts: digests that older versions stored were the same for `C` and `C++`.
    """
    texts = connection.execute(select(lessons.c.text).where(lessons.c.playbook_key == key))
    return {lesson_digest(text) for text in texts.scalars()}
