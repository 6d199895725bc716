"""Reads playbooks from the table of entries, each function within the caller's transaction.

Damaged rows are left out, see `memory.entries`, except by functions that return one playbook, or
all for an export.
"""

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import ColumnElement, Connection, Integer, bindparam, exists, func, or_, select

from memory.content import parse_content, sanitize_text
from memory.entries import IS_PLAYBOOK, EntryRow, EntrySelect, check_entries, read_entries
from memory.errors import EntryNotFound
from memory.tables import entries, entry_versions, lessons, playbook_tags
from memory.types import Lesson, OutcomeCounts, Playbook, PlaybookFilter

KEYS_PER_STATEMENT = 5_000
"""Keys in one SQL statement; SQLite accepts at most 32,766 parameters."""

MAX_LISTED = 1_000_000
"""Larger limits of a list mean no limit."""

_PLAYBOOKS = select(entries).where(IS_PLAYBOOK)
_KEYS = bindparam("keys", type_=Integer, expanding=True)
_BY_KEY = _PLAYBOOKS.where(entries.c.key.in_(_KEYS))
_LESSONS = (
    select(lessons.c.id, lessons.c.playbook_key, lessons.c.text, lessons.c.run_id, lessons.c.at)
    .where(lessons.c.playbook_key.in_(_KEYS))
    .order_by(lessons.c.id)
)


def get(connection: Connection, ref: str) -> Playbook:
    """Return the playbook with this id or slug.

    Raises:
        EntryNotFound: there is none.
    """
    found = find(connection, ref)
    if found is None:
        raise EntryNotFound(
            f"no playbook has the id or slug {ref!r}. `harness memory list` shows all"
        )
    return found


def find(connection: Connection, ref: str, *, lock: bool = False) -> Playbook | None:
    """Return the playbook with this id or slug, or None; an id goes before a slug.

    With `lock` nobody else can change it before the transaction ends.
    """
    query = select_by_ref(ref)
    if lock:  # the weakest lock that keeps changes off: rows that refer to it may be inserted
        query = query.with_for_update(key_share=True)
    found = _read(connection, query, strict=True)
    return found[0] if found else None


def select_by_ref(ref: str) -> EntrySelect:
    """Return a query for the row with this id or slug."""
    ref = sanitize_text(ref)
    by_id = entries.c.id == ref
    query = _PLAYBOOKS.where(or_(by_id, entries.c.slug == ref))
    return query.order_by(by_id.desc()).limit(1)


def by_key(connection: Connection, keys: Sequence[int]) -> dict[int, Playbook]:
    """Return playbooks by key, without deleted and damaged ones."""
    return {playbook.key: playbook for playbook in _read(connection, _BY_KEY, keys)}


def by_id(connection: Connection, ids: Sequence[str]) -> dict[str, Playbook]:
    """Return playbooks by id, without deleted and damaged ones."""
    query = _PLAYBOOKS.where(entries.c.id.in_(ids))
    return {playbook.id: playbook for playbook in _read(connection, query)}


def list_all(
    connection: Connection, where: PlaybookFilter, *, limit: int | None = None
) -> list[Playbook]:
    """Return playbooks that pass the filter, the latest change first."""
    query = (
        _PLAYBOOKS.where(*filter_conditions(where))
        .order_by(entries.c.updated_at.desc(), entries.c.id)
        .limit(limit if limit is None else min(limit, MAX_LISTED))
    )
    return _read(connection, query)


def list_everything(connection: Connection) -> list[Playbook]:
    """Return all playbooks ordered by id.

    Raises:
        StoreCorrupt: a row is damaged.
    """
    return _read(connection, _PLAYBOOKS.order_by(entries.c.id), strict=True)


def count_all(connection: Connection, where: PlaybookFilter) -> int:
    """Return the number of playbooks that pass the filter."""
    query = select(func.count()).select_from(entries).where(IS_PLAYBOOK, *filter_conditions(where))
    return connection.execute(query).scalar_one()


def filter_conditions(where: PlaybookFilter) -> list[ColumnElement[bool]]:
    """Return the filter as SQL conditions on a query for playbooks."""
    wanted: list[ColumnElement[bool]] = []
    if where.taught or not where.archived:
        wanted.append(entries.c.status != "archived")
    if not where.drafts:
        wanted.append(or_(entries.c.status != "draft", entries.c.source == where.own_source))
    # Sanitized like stored text, or a NUL byte in a filter would be an error on Postgres.
    if where.category is not None:
        wanted.append(entries.c.category == sanitize_text(where.category))
    if where.taught:
        wanted.append(exists().where(lessons.c.playbook_key == entries.c.key))
    for tag in where.tags:
        is_of_playbook = playbook_tags.c.playbook_key == entries.c.key
        wanted.append(exists().where(is_of_playbook, playbook_tags.c.tag == sanitize_text(tag)))
    return wanted


def written_by_others(connection: Connection, keys: Sequence[int]) -> set[int]:
    """Return those of these playbooks that a run or an import made or changed.

    Archiving by `prune` is not a change of the text.
    """
    wrote = (entry_versions.c.source != "person", entry_versions.c.source.not_like("prune: %"))
    changed = select(entry_versions.c.entry_key).where(entry_versions.c.entry_key.in_(keys), *wrote)
    made = select(entries.c.key).where(entries.c.key.in_(keys), entries.c.source != "person")
    return set(connection.execute(changed.union(made)).scalars())


def describe_damaged_rows(connection: Connection) -> list[str]:
    """Return one message for each row of a playbook that cannot be read."""
    return [str(error) for error in check_entries(connection, _PLAYBOOKS, _playbook)[1]]


def _read(
    connection: Connection,
    query: EntrySelect,
    keys: Sequence[int] | None = None,
    *,
    strict: bool = False,
) -> list[Playbook]:
    values = None if keys is None else {"keys": keys}
    found = read_entries(connection, query, _playbook, values, strict=strict)
    taught = _lessons(connection, [playbook.key for playbook in found])
    return [replace(p, lessons=tuple(taught[p.key])) if p.key in taught else p for p in found]


def _lessons(connection: Connection, keys: Sequence[int]) -> dict[int, list[Lesson]]:
    found: dict[int, list[Lesson]] = {}
    for start in range(0, len(keys), KEYS_PER_STATEMENT):
        batch = keys[start : start + KEYS_PER_STATEMENT]
        for row in connection.execute(_LESSONS, {"keys": batch}):
            lesson = Lesson(id=row.id, text=row.text, run_id=row.run_id, at=row.at)
            found.setdefault(row.playbook_key, []).append(lesson)
    return found


def _playbook(row: EntryRow) -> Playbook:
    counts = OutcomeCounts(successes=row.successes, partials=row.partials, failures=row.failures)
    return Playbook(
        **vars(parse_content(row.content)),
        id=row.id,
        key=row.key,
        slug=row.slug,
        version=row.version,
        counts=counts,
        created_at=row.created_at,
        updated_at=row.updated_at,
        last_used_at=row.last_used_at,
        source=row.source,
    )
