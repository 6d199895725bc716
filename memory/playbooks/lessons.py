"""What was learned with a playbook: each lesson once, and few of one run."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection, func, insert, select
from sqlalchemy.exc import IntegrityError

from memory.content import lesson_digest, sanitize_text
from memory.database import lock_until_commit
from memory.tables import lessons

MAX_LESSONS_PER_RUN = 3
"""Lessons that one run, or one reflection, may leave behind."""

LESSON_LIMIT = 1_000
"""Characters that a lesson keeps."""


class RejectedLesson(NamedTuple):
    """A lesson, or the end of one, that was not kept, and why."""

    text: str
    reason: str


class AddedLessons(NamedTuple):
    """What came of lessons that were given."""

    added: list[str]
    rejected: list[RejectedLesson]


def add_lessons(
    connection: Connection,
    key: int,
    texts: Sequence[str],
    *,
    run_id: str | None,
    at: datetime,
    asked: bool = False,
) -> AddedLessons:
    """Add lessons that are not there yet.

    A run adds three at most, over all its reflections, unless somebody asked for these. A
    restatement that differs only in case, spaces and the mark at its end is the same lesson; any
    other may be a correction.
    """
    if run_id is not None:
        lock_until_commit(connection, f"run {run_id}")
    bound = run_id is not None and not asked
    free = MAX_LESSONS_PER_RUN - _taught(connection, run_id) if bound else MAX_LESSONS_PER_RUN
    whose = f"of run {run_id!r}" if bound else "at a time"
    taught = AddedLessons([], [])
    known = _known(connection, key)
    for given in texts:
        whole = sanitize_text(given).strip()
        text, rest = whole[:LESSON_LIMIT], whole[LESSON_LIMIT:]
        if len(taught.added) >= free:
            taught.rejected.append(
                RejectedLesson(whole, f"at most {MAX_LESSONS_PER_RUN} are, {whose}")
            )
        elif not text or not _add_lesson(connection, key, text, known, run_id, at):
            taught.rejected.append(RejectedLesson(whole, "it is known" if text else "it is empty"))
        else:
            taught.added.append(text)
            if rest:
                taught.rejected.append(
                    RejectedLesson(rest, f"a lesson has {LESSON_LIMIT:,} characters")
                )
    return taught


def missing_lessons(connection: Connection, key: int, texts: Iterable[str]) -> set[str]:
    """Those of these texts that are no lessons of the playbook."""
    held = _known(connection, key)
    kept = {text: sanitize_text(text).strip()[:LESSON_LIMIT] for text in texts}
    return {text for text, lesson in kept.items() if lesson and lesson_digest(lesson) not in held}


def restore_lessons(
    connection: Connection, key: int, taught: Sequence[tuple[str, str | None]], at: datetime
) -> None:
    """Add lessons that another store held, with the runs that they came from."""
    known = _known(connection, key) if taught else set()
    for text, run_id in taught:
        _add_lesson(connection, key, sanitize_text(text)[:LESSON_LIMIT], known, run_id, at)


def _add_lesson(
    connection: Connection, key: int, text: str, known: set[str], run_id: str | None, at: datetime
) -> bool:
    values = {"text": text, "digest": lesson_digest(text), "run_id": run_id, "at": at}
    if values["digest"] in known:
        return False
    known.add(lesson_digest(text))
    try:
        with connection.begin_nested():
            connection.execute(insert(lessons).values(playbook_key=key, **values))
    except IntegrityError:
        return False
    return True


def _known(connection: Connection, key: int) -> set[str]:
    """Of the texts: what an older Harness kept beside them took `C` and `C++` for the same."""
    texts = connection.execute(select(lessons.c.text).where(lessons.c.playbook_key == key))
    return {lesson_digest(text) for text in texts.scalars()}


def _taught(connection: Connection, run_id: str | None) -> int:
    query = select(func.count()).select_from(lessons).where(lessons.c.run_id == run_id)
    return connection.execute(query).scalar_one()
