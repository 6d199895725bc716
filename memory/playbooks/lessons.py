"""Lessons of playbooks: each stored once, few from one run, embedded for ranking."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection, Engine, func, insert, select
from sqlalchemy.exc import IntegrityError

from memory.content import lesson_digest, sanitize_text
from memory.database import lock_until_commit, read_transaction, write_transaction
from memory.playbooks import store
from memory.playbooks.index import PlaybookIndex
from memory.tables import lessons
from memory.vectors import stored_vectors

MAX_LESSONS_PER_RUN = 3
"""Lessons that one run, or one reflection, may add."""

LESSON_LIMIT = 1_000
"""Characters stored of a lesson."""


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
    free = MAX_LESSONS_PER_RUN - (_count_of_run(connection, run_id) if by_run else 0)
    per = f"for run {run_id!r}" if by_run else "at a time"
    result = AddedLessons([], [])
    known = _digests(connection, key)
    for given in texts:
        whole = sanitize_text(given).strip()
        text, rest = whole[:LESSON_LIMIT], whole[LESSON_LIMIT:]
        if len(result.added) >= free:
            reason = f"at most {MAX_LESSONS_PER_RUN} lessons are stored {per}"
            result.rejected.append(RejectedLesson(whole, reason))
        elif not text or not _insert(connection, key, text, known, run_id, at):
            reason = "the playbook has this lesson" if text else "it is empty"
            result.rejected.append(RejectedLesson(whole, reason))
        else:
            result.added.append(text)
            if rest:
                reason = f"a lesson has at most {LESSON_LIMIT:,} characters"
                result.rejected.append(RejectedLesson(rest, reason))
    return result


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
        _insert(connection, key, sanitize_text(text)[:LESSON_LIMIT], known, run_id, at)


def embed_lessons(engine: Engine, index: PlaybookIndex, ref: str) -> None:
    """Embed the lessons of a playbook that have no vector, if a model answers.

    Raises:
        PlaybookNotFound: there is no such playbook.
    """
    if index.model is None:
        return
    with read_transaction(engine) as connection:
        key = store.get(connection, ref).key
        waiting = stored_vectors.lessons_to_embed(connection, index.model, key)
    vectors = index.embed([item.text for item in waiting])
    if vectors is None:
        return
    with write_transaction(engine) as connection:
        for item, vector in zip(waiting, vectors, strict=True):
            stored_vectors.put_lesson_vector(connection, item.key, index.model, vector)


def _insert(
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


def _count_of_run(connection: Connection, run_id: str | None) -> int:
    query = select(func.count()).select_from(lessons).where(lessons.c.run_id == run_id)
    return connection.execute(query).scalar_one()
