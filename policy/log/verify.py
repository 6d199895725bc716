"""Looks at every event, entity and link of a log: hashes, causes, clocks, triggers, the head."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple, TypeVar

from sqlalchemy import Connection, Select, inspect, select, text

from policy.database import read_transaction
from policy.errors import LogDamaged
from policy.log.event_log import EventLog
from policy.log.events import line_digest
from policy.log.head import HeadFile, LogHead
from policy.log.integrity import CausalityCheck, IntegrityProblem, RawEvent
from policy.tables import APPEND_ONLY, entities, event_entities, event_heads, events

_T = TypeVar("_T")

_AT_ONCE = 5_000
"""Rows read in one go."""


@dataclass(frozen=True, kw_only=True)
class VerifyResult:
    """What was looked at, and what is wrong; `notes` are odd but may be innocent."""

    events: int
    entities: int
    heads: tuple[str, ...]
    findings: tuple[IntegrityProblem, ...]
    notes: tuple[IntegrityProblem, ...]

    @property
    def ok(self) -> bool:
        """True when nothing is wrong."""
        return not self.findings


class _Row(NamedTuple):
    id: str
    run_id: str
    kind: str
    replica: str
    counter: int
    line: str


def verify(log: EventLog, *, heads: tuple[str, ...] = ()) -> VerifyResult:
    """Look at the whole log; `heads` are ids that somebody kept elsewhere and must be there.

    Raises:
        LogUnavailable: the log cannot be read.
    """
    with log.head_file.locked():
        kept = _read(log.head_file)
    with read_transaction(
        log.engine
    ) as connection:  # later than the head: what it names must be there
        causes = CausalityCheck()
        findings = list(_entities(connection, causes))
        for row in _rows(connection):
            raw = causes.check_event(row.id, row.line)
            if raw is not None:
                findings += _columns(row, raw)
        findings += _links(connection, causes)
        findings += causes.problems()
        findings += _heads(connection, causes)
        findings += _triggers(connection)
    findings += _kept(kept, log.head_file, causes, heads)
    return VerifyResult(
        events=len(causes.clocks),
        entities=len(causes.entities),
        heads=tuple(sorted(causes.heads)),
        findings=tuple(findings),
        notes=tuple(causes.warnings),
    )


def _rows(connection: Connection) -> Iterator[_Row]:
    query = select(*(events.c[name] for name in _Row._fields)).order_by(events.c.number)
    return map(_Row._make, _plain(connection, query))


def _plain(connection: Connection, query: Select[tuple[_T, ...]]) -> Iterator[tuple[_T, ...]]:
    """The rows, a few at a time; SQLite's as they come: texts and numbers need no making over."""
    if connection.dialect.name != "sqlite":
        for row in connection.execution_options(yield_per=_AT_ONCE).execute(query):
            yield tuple(row)
        return
    with connection.execute(query) as result:
        cursor = result.cursor
        while cursor is not None and (rows := cursor.fetchmany(_AT_ONCE)):
            yield from rows


def _entities(connection: Connection, causes: CausalityCheck) -> Iterator[IntegrityProblem]:
    query = select(entities.c.id, entities.c.line)
    for name, line in _plain(connection, query):
        if line_digest(line) != name:
            yield IntegrityProblem(
                name, "the entity's content is not what its id says: it was edited"
            )
        causes.entities.add(name)


def _columns(row: _Row, raw: RawEvent) -> list[IntegrityProblem]:
    told = (raw["run_id"], raw["kind"], raw["replica"], raw["clock"].get(row.replica))
    if told == row[1:5]:
        return []
    return [IntegrityProblem(row.id, "a column differs from the event itself: the row was edited")]


def _links(connection: Connection, causes: CausalityCheck) -> Iterator[IntegrityProblem]:
    """Compare the links, which searches go by, with what the events themselves say."""
    table = event_entities.c
    query = select(table.event, table.role + table.entity).order_by(*event_entities.primary_key)
    rows = _plain(connection, query)
    linked = 0
    for event, group in groupby(rows, key=itemgetter(0)):
        linked += 1
        if causes.named.get(event) != hash(tuple([link for _, link in group])):
            yield IntegrityProblem(event, "its links to entities are not those that it names")
    if linked != len(causes.named):
        yield IntegrityProblem(
            "links", f"{len(causes.named)} events name entities, {linked} are linked"
        )


def _heads(connection: Connection, causes: CausalityCheck) -> Iterator[IntegrityProblem]:
    kept = {row[0] for row in connection.execute(select(event_heads.c.id))}
    if kept != causes.heads:
        yield IntegrityProblem(
            "heads", "the table of heads does not name the events that none follows"
        )


def _triggers(connection: Connection) -> Iterator[IntegrityProblem]:
    if connection.dialect.name == "sqlite":
        there = text("SELECT name FROM sqlite_master WHERE type = 'trigger'")
        endings: tuple[str, ...] = ("no_update", "no_delete", "no_replace")
    else:
        there = text("SELECT tgname FROM pg_trigger WHERE tgenabled <> 'D'")
        endings = ("no_change",)
    found = {row[0] for row in connection.execute(there)}
    for table in APPEND_ONLY:
        if not inspect(connection).has_table(table):
            yield IntegrityProblem(table, "the table is gone")
        for ending in endings:
            if f"{table}_{ending}" not in found:
                yield IntegrityProblem(
                    table, f"the trigger {table}_{ending} is gone: anybody may edit"
                )


def _read(file: HeadFile) -> LogHead | LogDamaged | None:
    try:
        return file.read()
    except LogDamaged as error:
        return error


def _kept(
    kept: LogHead | LogDamaged | None,
    file: HeadFile,
    causes: CausalityCheck,
    heads: tuple[str, ...],
) -> Iterator[IntegrityProblem]:
    if isinstance(kept, LogDamaged):
        yield IntegrityProblem("head", str(kept))
        kept = LogHead(heads=[], clock={})
    if kept is None:
        if causes.clocks:
            yield IntegrityProblem("head", f"none is kept at {file.path}: a cut could not be seen")
        kept = LogHead(heads=[], clock={})
    for head in (*kept.heads, *heads):
        if head not in causes.clocks:
            yield IntegrityProblem(
                head, "a kept head is not in the log: it was cut short or put back"
            )
