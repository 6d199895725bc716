"""What was learned with a playbook: each lesson once, and few of one run."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection, func, insert, select
from sqlalchemy.exc import IntegrityError

from memory.content import digest, storable
from memory.tables import lessons

LESSONS_A_RUN = 3
"""Lessons that one run, or one reflection, may leave behind."""

LESSON_LIMIT = 1_000
"""Characters that a lesson keeps."""


class Dropped(NamedTuple):
    """A lesson, or the end of one, that was not kept, and why."""

    text: str
    why: str


class Taught(NamedTuple):
    """What came of lessons that were given."""

    new: list[str]
    dropped: list[Dropped]


def add_lessons(
    connection: Connection, key: int, texts: Sequence[str], *, run_id: str | None, at: datetime
) -> Taught:
    """Add lessons that are not there yet.

    A run adds three at the most, over all its reflections. A restatement that differs only in
    case, spaces and punctuation is the same lesson; any other wording may be a correction.
    """
    free = LESSONS_A_RUN if run_id is None else LESSONS_A_RUN - _taught(connection, run_id)
    whose = "at a time" if run_id is None else f"of run {run_id!r}"
    taught = Taught([], [])
    for given in texts:
        whole = storable(given).strip()
        text, rest = whole[:LESSON_LIMIT], whole[LESSON_LIMIT:]
        if len(taught.new) >= free:
            taught.dropped.append(Dropped(whole, f"at most {LESSONS_A_RUN} are, {whose}"))
        elif not text or not _add_lesson(connection, key, text, run_id, at):
            taught.dropped.append(Dropped(whole, "it is known" if text else "it is empty"))
        else:
            taught.new.append(text)
            if rest:
                taught.dropped.append(Dropped(rest, f"a lesson has {LESSON_LIMIT:,} characters"))
    return taught


def restore_lessons(
    connection: Connection, key: int, taught: Sequence[tuple[str, str | None]], at: datetime
) -> None:
    """Add lessons that another store held, with the runs that they came from."""
    for text, run_id in taught:
        _add_lesson(connection, key, storable(text)[:LESSON_LIMIT], run_id, at)


def _add_lesson(
    connection: Connection, key: int, text: str, run_id: str | None, at: datetime
) -> bool:
    values = {"text": text, "digest": digest(text), "run_id": run_id, "at": at}
    try:
        with connection.begin_nested():
            connection.execute(insert(lessons).values(playbook_key=key, **values))
    except IntegrityError:
        return False
    return True


def _taught(connection: Connection, run_id: str) -> int:
    query = select(func.count()).select_from(lessons).where(lessons.c.run_id == run_id)
    return connection.execute(query).scalar_one()
