"""Rows of the database as playbooks. A damaged one is named; where many are meant, left out."""

import logging
from collections.abc import Mapping, Sequence
from functools import cache

from sqlalchemy import Connection, Integer, Row, Select, bindparam, select
from sqlalchemy.exc import OperationalError

from memory.content import parse_content
from memory.errors import PlaybookInvalid, StoreCorrupt
from memory.tables import lessons, playbooks
from memory.types import Lesson, OutcomeCounts, Playbook, PlaybookContent

KEYS_PER_STATEMENT = 5_000
"""Keys that one statement names; databases take no more than some ten thousand."""

KEYS_PARAMETER = bindparam("keys", type_=Integer, expanding=True)

_LESSONS = (
    select(lessons.c.id, lessons.c.playbook_key, lessons.c.text, lessons.c.run_id, lessons.c.at)
    .where(lessons.c.playbook_key.in_(KEYS_PARAMETER))
    .order_by(lessons.c.id)
)
_NAMES = PlaybookContent.__dataclass_fields__

PlaybookSelect = Select[tuple[object, ...]]
_Row = Row[tuple[object, ...]]

_log = logging.getLogger(__name__)


def read_playbooks(
    connection: Connection, query: PlaybookSelect, given: Mapping[str, object] | None = None
) -> list[Playbook]:
    """The playbooks of a query over `playbooks`; those that are damaged left out, told of once."""
    found, damaged = _read(connection, query, given)
    for error in damaged:
        _tell(str(error))
    return found


def read_playbooks_strictly(connection: Connection, query: PlaybookSelect) -> list[Playbook]:
    """The same, all of them.

    Raises:
        StoreCorrupt: one is damaged; it is named.
    """
    found, damaged = _read(connection, query, None)
    if damaged:
        raise damaged[0]
    return found


def describe_damaged_rows(connection: Connection) -> list[str]:
    """What is wrong with each playbook that cannot be read."""
    return [str(error) for error in _read(connection, select(playbooks), None)[1]]


def _read(
    connection: Connection, query: PlaybookSelect, given: Mapping[str, object] | None
) -> tuple[list[Playbook], list[StoreCorrupt]]:
    rows, damaged = _rows(connection, query, given)
    taught = _lessons(connection, [row.key for row in rows])
    found = []
    for row in rows:
        try:
            found.append(_playbook(row, tuple(taught.get(row.key, ()))))
        except PlaybookInvalid as error:
            damaged.append(_corrupt(row.key, row.id, error))
    return found, damaged


def _rows(
    connection: Connection, query: PlaybookSelect, given: Mapping[str, object] | None
) -> tuple[Sequence[_Row], list[StoreCorrupt]]:
    try:
        return connection.execute(query, given).all(), []
    except (ValueError, OperationalError) as error:
        if not _is_of_a_row(error):
            raise
    names = query.with_only_columns(playbooks.c.key, playbooks.c.id)
    rows: list[_Row] = []
    damaged: list[StoreCorrupt] = []
    for key, id_ in connection.execute(names, given).all():
        try:
            rows += connection.execute(select(playbooks).where(playbooks.c.key == key)).all()
        except (ValueError, OperationalError) as error:
            if not _is_of_a_row(error):
                raise
            damaged.append(_corrupt(key, id_, error))
    return rows, damaged


def _is_of_a_row(error: Exception) -> bool:
    """Whether a value is no JSON, no moment or no text; else the database has said something."""
    return isinstance(error, ValueError) or "decode to UTF-8" in str(error)


def _corrupt(key: int, id_: str, error: Exception) -> StoreCorrupt:
    said = str(error).splitlines()[0][:200]
    return StoreCorrupt(
        f"playbook {id_!r} cannot be read: row {key} of table 'playbooks' is damaged ({said}). "
        "Mend it there, or remove it with `harness memory rm`"
    )


@cache
def _tell(message: str) -> None:
    """Once a process."""
    _log.warning("left out: %s", message)


def _lessons(connection: Connection, keys: Sequence[int]) -> dict[int, list[Lesson]]:
    found: dict[int, list[Lesson]] = {}
    for start in range(0, len(keys), KEYS_PER_STATEMENT):
        for row in connection.execute(_LESSONS, {"keys": keys[start : start + KEYS_PER_STATEMENT]}):
            lesson = Lesson(id=row.id, text=row.text, run_id=row.run_id, at=row.at)
            found.setdefault(row.playbook_key, []).append(lesson)
    return found


def _playbook(row: _Row, taught: tuple[Lesson, ...]) -> Playbook:
    content = parse_content({name: getattr(row, name) for name in _NAMES})
    return Playbook(
        **{name: getattr(content, name) for name in _NAMES},
        id=row.id,
        key=row.key,
        slug=row.slug,
        version=row.version,
        counts=OutcomeCounts(successes=row.successes, partials=row.partials, failures=row.failures),
        lessons=taught,
        created_at=row.created_at,
        updated_at=row.updated_at,
        last_used_at=row.last_used_at,
        source=row.source,
    )
