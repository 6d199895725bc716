"""Reads playbooks from the database, each function within the caller's transaction.

A damaged row (edited by hand, or damaged on disk) is left out of lists and searches, with one
warning in the log. Functions that return one playbook, or all for an export, raise StoreCorrupt.
"""

import logging
from collections.abc import Mapping, Sequence
from functools import cache

from sqlalchemy import (
    ColumnElement,
    Connection,
    Integer,
    Row,
    Select,
    bindparam,
    exists,
    func,
    or_,
    select,
)
from sqlalchemy.exc import OperationalError

from memory.content import CONTENT_FIELDS, parse_content, sanitize_text
from memory.errors import PlaybookInvalid, PlaybookNotFound, StoreCorrupt
from memory.tables import lessons, playbook_tags, playbooks, versions
from memory.types import Lesson, OutcomeCounts, Playbook, PlaybookFilter, PlaybookVersion

KEYS_PER_STATEMENT = 5_000
"""Keys in one SQL statement; SQLite accepts at most 32,766 parameters."""

MAX_LISTED = 1_000_000
"""Larger limits of a list mean no limit."""

PlaybookSelect = Select[tuple[object, ...]]
_Row = Row[tuple[object, ...]]

_KEYS = bindparam("keys", type_=Integer, expanding=True)
_BY_KEY = select(playbooks).where(playbooks.c.key.in_(_KEYS))
_LESSONS = (
    select(lessons.c.id, lessons.c.playbook_key, lessons.c.text, lessons.c.run_id, lessons.c.at)
    .where(lessons.c.playbook_key.in_(_KEYS))
    .order_by(lessons.c.id)
)

_log = logging.getLogger(__name__)


def get(connection: Connection, ref: str) -> Playbook:
    """Return the playbook with this id or slug.

    Raises:
        PlaybookNotFound: there is none.
    """
    found = find(connection, ref)
    if found is None:
        raise PlaybookNotFound(
            f"no playbook has the id or slug {ref!r}. `harness memory list` shows all"
        )
    return found


def find(connection: Connection, ref: str, *, lock: bool = False) -> Playbook | None:
    """Return the playbook with this id or slug, or None; an id goes before a slug.

    With `lock` nobody else can change it before the transaction ends.
    """
    query = select_by_ref(ref)
    found = _read_strictly(connection, _locked(query) if lock else query)
    return found[0] if found else None


def select_by_ref(ref: str) -> PlaybookSelect:
    """Return a query for the row with this id or slug."""
    ref = sanitize_text(ref)
    by_id = playbooks.c.id == ref
    query = select(playbooks).where(or_(by_id, playbooks.c.slug == ref))
    return query.order_by(by_id.desc()).limit(1)


def by_key(
    connection: Connection, keys: Sequence[int], *, lock: bool = False
) -> dict[int, Playbook]:
    """Return playbooks by key, without deleted and damaged ones.

    With `lock` nobody else can change them before the transaction ends.
    """
    query = _locked(_BY_KEY) if lock else _BY_KEY
    return {playbook.key: playbook for playbook in _read(connection, query, {"keys": keys})}


def by_id(connection: Connection, ids: Sequence[str]) -> dict[str, Playbook]:
    """Return playbooks by id, without deleted and damaged ones."""
    query = select(playbooks).where(playbooks.c.id.in_(ids))
    return {playbook.id: playbook for playbook in _read(connection, query)}


def list_all(
    connection: Connection, where: PlaybookFilter, *, limit: int | None = None
) -> list[Playbook]:
    """Return playbooks that pass the filter, the latest change first."""
    query = (
        select(playbooks)
        .where(*filter_conditions(where))
        .order_by(playbooks.c.updated_at.desc(), playbooks.c.id)
        .limit(limit if limit is None else min(limit, MAX_LISTED))
    )
    return _read(connection, query)


def list_everything(connection: Connection) -> list[Playbook]:
    """Return all playbooks ordered by id.

    Raises:
        StoreCorrupt: a row is damaged.
    """
    return _read_strictly(connection, select(playbooks).order_by(playbooks.c.id))


def count_all(connection: Connection, where: PlaybookFilter) -> int:
    """Return the number of playbooks that pass the filter."""
    query = select(func.count()).select_from(playbooks).where(*filter_conditions(where))
    return connection.execute(query).scalar_one()


def filter_conditions(where: PlaybookFilter) -> list[ColumnElement[bool]]:
    """Return the filter as SQL conditions on the table `playbooks`."""
    wanted: list[ColumnElement[bool]] = []
    if where.taught or not where.archived:
        wanted.append(playbooks.c.status != "archived")
    if not where.drafts:
        wanted.append(or_(playbooks.c.status != "draft", playbooks.c.source == where.own_source))
    # Sanitized like stored text, or a NUL byte in a filter would be an error on Postgres.
    if where.category is not None:
        wanted.append(playbooks.c.category == sanitize_text(where.category))
    if where.taught:
        wanted.append(exists().where(lessons.c.playbook_key == playbooks.c.key))
    for tag in where.tags:
        is_of_playbook = playbook_tags.c.playbook_key == playbooks.c.key
        wanted.append(exists().where(is_of_playbook, playbook_tags.c.tag == sanitize_text(tag)))
    return wanted


def history(connection: Connection, key: int) -> list[PlaybookVersion]:
    """Return every version of a playbook, the newest first.

    Raises:
        StoreCorrupt: a version is damaged.
    """
    query = select(versions).where(versions.c.playbook_key == key)
    return [_version(row) for row in connection.execute(query.order_by(versions.c.version.desc()))]


def written_by_others(connection: Connection, keys: Sequence[int]) -> set[int]:
    """Return those of these playbooks that a run or an import made or changed.

    Archiving by `prune` is not a change of the text.
    """
    wrote = (versions.c.source != "person", versions.c.source.not_like("prune: %"))
    changed = select(versions.c.playbook_key).where(versions.c.playbook_key.in_(keys), *wrote)
    made = select(playbooks.c.key).where(playbooks.c.key.in_(keys), playbooks.c.source != "person")
    return set(connection.execute(changed.union(made)).scalars())


def describe_damaged_rows(connection: Connection) -> list[str]:
    """Return one message for each row of `playbooks` that cannot be read."""
    return [str(error) for error in _read_rows(connection, select(playbooks))[1]]


def _locked(query: PlaybookSelect) -> PlaybookSelect:
    # The weakest lock that keeps changes off: rows that refer to the playbook may be inserted.
    return query.with_for_update(key_share=True)


def _read(
    connection: Connection, query: PlaybookSelect, values: Mapping[str, object] | None = None
) -> list[Playbook]:
    found, damaged = _read_rows(connection, query, values)
    for error in damaged:
        _warn_once(str(error))
    return found


def _read_strictly(connection: Connection, query: PlaybookSelect) -> list[Playbook]:
    found, damaged = _read_rows(connection, query)
    if damaged:
        raise damaged[0]
    return found


@cache
def _warn_once(message: str) -> None:
    _log.warning("left out: %s", message)


def _read_rows(
    connection: Connection, query: PlaybookSelect, values: Mapping[str, object] | None = None
) -> tuple[list[Playbook], list[StoreCorrupt]]:
    """Return the playbooks of a query, and an error for each damaged row."""
    rows, damaged = _fetch(connection, query, values)
    lessons_of = _lessons(connection, [row.key for row in rows])
    found = []
    for row in rows:
        try:
            found.append(_playbook(row, tuple(lessons_of.get(row.key, ()))))
        except PlaybookInvalid as error:
            damaged.append(_corrupt(row.key, row.id, error))
    return found, damaged


def _fetch(
    connection: Connection, query: PlaybookSelect, values: Mapping[str, object] | None
) -> tuple[Sequence[_Row], list[StoreCorrupt]]:
    """Fetch all rows at once; only if one cannot be decoded, fetch them one by one."""
    try:
        return connection.execute(query, values).all(), []
    except (ValueError, OperationalError) as error:
        if not _is_about_a_value(error):
            raise
    rows: list[_Row] = []
    damaged: list[StoreCorrupt] = []
    names = query.with_only_columns(playbooks.c.key, playbooks.c.id)
    for key, id_ in connection.execute(names, values).all():
        try:
            rows += connection.execute(select(playbooks).where(playbooks.c.key == key)).all()
        except (ValueError, OperationalError) as error:
            if not _is_about_a_value(error):
                raise
            damaged.append(_corrupt(key, id_, error))
    return rows, damaged


def _is_about_a_value(error: Exception) -> bool:
    """Return True if a value is not JSON, a timestamp or UTF-8, rather than the database broken."""
    return isinstance(error, ValueError) or "decode to UTF-8" in str(error)


def _corrupt(key: int, id_: str, error: Exception) -> StoreCorrupt:
    reason = str(error).splitlines()[0][:200]
    return StoreCorrupt(
        f"playbook {id_!r} cannot be read: row {key} of table 'playbooks' is damaged ({reason}). "
        "Repair the row, or remove the playbook with `harness memory rm`"
    )


def _lessons(connection: Connection, keys: Sequence[int]) -> dict[int, list[Lesson]]:
    found: dict[int, list[Lesson]] = {}
    for start in range(0, len(keys), KEYS_PER_STATEMENT):
        batch = keys[start : start + KEYS_PER_STATEMENT]
        for row in connection.execute(_LESSONS, {"keys": batch}):
            lesson = Lesson(id=row.id, text=row.text, run_id=row.run_id, at=row.at)
            found.setdefault(row.playbook_key, []).append(lesson)
    return found


def _playbook(row: _Row, lessons_: tuple[Lesson, ...]) -> Playbook:
    counts = OutcomeCounts(successes=row.successes, partials=row.partials, failures=row.failures)
    return Playbook(
        **vars(parse_content({name: getattr(row, name) for name in CONTENT_FIELDS})),
        id=row.id,
        key=row.key,
        slug=row.slug,
        version=row.version,
        counts=counts,
        lessons=lessons_,
        created_at=row.created_at,
        updated_at=row.updated_at,
        last_used_at=row.last_used_at,
        source=row.source,
    )


def _version(row: _Row) -> PlaybookVersion:
    try:
        content = parse_content(row.content)
    except PlaybookInvalid as error:
        place = f"version {row.version} of playbook {row.playbook_key} in 'playbook_versions'"
        raise StoreCorrupt(f"{place} is damaged: {error}") from error
    return PlaybookVersion(version=row.version, at=row.at, source=row.source, content=content)
