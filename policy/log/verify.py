"""Verifies events: hashes, causes, clocks and, for a whole log, columns, approvals and triggers.

Nothing in a line is trusted before its hash fits. A damaged line is reported, never raised.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from pydantic import ValidationError
from sqlalchemy import Connection, Row, inspect, select, text

from policy.database import (
    APPEND_ONLY,
    POSTGRES_GUARD,
    entities,
    event_heads,
    events,
    merged_events,
    read_transaction,
    sqlite_triggers,
)
from policy.errors import LogDamaged
from policy.log.approval_record import approval_problems
from policy.log.event_log import EventLog, merged_digest
from policy.log.events import Clock, EventLine, joined_clock, line_digest
from policy.log.head import LogHead

_FETCHED_ROWS = 5_000


class IntegrityProblem(NamedTuple):
    """A problem, and its place: the id of an event or entity, or the name of a table."""

    where: str
    problem: str

    def __str__(self) -> str:
        return f"{self.where}: {self.problem}"


class CausalityCheck:
    """Checks events in any order; `entities` are the ids of the entities that exist."""

    def __init__(self) -> None:
        self.clocks: dict[str, Clock] = {}
        self.entities: set[str] = set()
        self.warnings: list[IntegrityProblem] = []
        self._problems: list[IntegrityProblem] = []
        self._followed: set[str] = set()
        self._postponed: dict[str, EventLine] = {}
        self._unknown_entities: dict[str, str] = {}
        self.counters: dict[tuple[str, int], str] = {}
        self._times: dict[str, datetime] = {}

    @property
    def heads(self) -> set[str]:
        """The events without a successor."""
        return self.clocks.keys() - self._followed

    def check_event(self, name: str, line: str) -> EventLine | None:
        """Check the event with this id; return its fields, or None if it is not an event."""
        if line_digest(line) != name:
            self._report(name, "its content does not match its id: it was edited")
        try:
            event = EventLine.model_validate_json(line)
        except ValidationError:
            self._report(name, "it is not a complete event: it was cut off or edited")
            return None
        # A merge that restores lost events inserts causes after their effects.
        if self.clocks.keys() >= set(event.heads):
            self._check_clock(name, event)
        else:
            self._postponed[name] = event
        self.clocks[name] = event.clock
        self._followed.update(event.heads)
        count = event.clock.get(event.replica, 0)
        other = self.counters.setdefault((event.replica, count), name)
        if other != name:
            self._report(
                name,
                f"it and {other} are both number {count} of {event.replica}: two machines have "
                "the same name",
            )
        if event.at < self._times.get(event.replica, event.at):
            warning = "the clock of the machine went back; the order is not affected"
            self.warnings.append(IntegrityProblem(name, warning))
        self._times[event.replica] = event.at
        for entity in (*event.consumes, *event.produces):
            if entity not in self.entities:
                self._unknown_entities.setdefault(entity, name)
        return event

    def problems(self) -> list[IntegrityProblem]:
        """Return all problems; called once, after the last event."""
        for name, event in self._postponed.items():
            missing = [head for head in event.heads if head not in self.clocks]
            if missing:
                self._report(name, f"it follows event {missing[0]}, which is missing")
            else:
                self._check_clock(name, event)
        for entity, name in self._unknown_entities.items():
            if entity not in self.entities:
                self._report(name, f"it names entity {entity}, which is missing")
        return self._problems

    def _report(self, where: str, problem: str) -> None:
        self._problems.append(IntegrityProblem(where, problem))

    def _check_clock(self, name: str, event: EventLine) -> None:
        expected = joined_clock(self.clocks[head] for head in event.heads)
        expected[event.replica] = expected.get(event.replica, 0) + 1
        if expected != event.clock:
            self._report(
                name, "its clock does not follow from its causes: it ran backwards or was forged"
            )


@dataclass(frozen=True, kw_only=True)
class VerifyResult:
    """The result of a verification; `notes` are unusual, but may be harmless."""

    events: int
    entities: int
    heads: tuple[str, ...]
    findings: tuple[IntegrityProblem, ...]
    notes: tuple[IntegrityProblem, ...]

    @property
    def ok(self) -> bool:
        """True if there are no findings."""
        return not self.findings


def verify(log: EventLog, *, heads: tuple[str, ...] = ()) -> VerifyResult:
    """Verify the whole log. `heads` are ids of events that must exist, recorded elsewhere."""
    before = _read_head(log)
    with read_transaction(log.engine) as connection:  # after the head, so that its events are in
        check = CausalityCheck()
        findings = list(_entity_problems(connection, check))
        findings += _event_problems(connection, check)
        findings += check.problems()
        if set(connection.scalars(select(event_heads.c.id))) != check.heads:
            problem = "the table of heads does not hold exactly the events without a successor"
            findings.append(IntegrityProblem("heads", problem))
        findings += (IntegrityProblem(*found) for found in approval_problems(connection))
        findings += _trigger_problems(connection)
        merged = merged_digest(connection)
    # Read again: what was appended meanwhile is in neither the first head nor in `check`.
    findings += _head_problems(log, before, _read_head(log), check)
    findings += _merged_problems(before, _read_head(log), merged)
    findings += _missing_heads(check, heads)
    return VerifyResult(
        events=len(check.clocks),
        entities=len(check.entities),
        heads=tuple(sorted(check.heads)),
        findings=tuple(findings),
        notes=tuple(check.warnings),
    )


def _entity_problems(connection: Connection, check: CausalityCheck) -> Iterator[IntegrityProblem]:
    query = select(entities.c.id, entities.c.origin, entities.c.line)
    for row in connection.execution_options(yield_per=_FETCHED_ROWS).execute(query):
        if line_digest(row.line) != row.id:
            yield IntegrityProblem(
                row.id, "the content of the entity does not match its id: it was edited"
            )
        elif json.loads(row.line)["origin"] != row.origin:
            yield IntegrityProblem(row.id, "the origin of the entity was edited")
        check.entities.add(row.id)


def _event_problems(connection: Connection, check: CausalityCheck) -> Iterator[IntegrityProblem]:
    last = _last_number(connection)
    counters: dict[str, int] = {}
    merged = set(connection.scalars(select(merged_events.c.id)))
    query = select(events).order_by(events.c.number)
    for row in connection.execution_options(yield_per=_FETCHED_ROWS).execute(query):
        event = check.check_event(row.id, row.line)
        if event is not None and not _columns_match(row, event):
            yield IntegrityProblem(row.id, "a column differs from the event: the row was edited")
        is_late = row.id not in merged and row.counter <= counters.get(row.replica, 0)
        if is_late or not 0 < row.number <= last:
            yield IntegrityProblem(row.id, f"number {row.number} was edited: it is out of order")
        if row.id not in merged:
            counters[row.replica] = row.counter


def _last_number(connection: Connection) -> int:
    """Return the greatest number that the database has given to an event."""
    if connection.dialect.name == "sqlite":
        query = text("SELECT seq FROM sqlite_sequence WHERE name = 'events'")
    else:
        query = text("SELECT last_value FROM events_number_seq")
    return int(connection.execute(query).scalar() or 0)


def _columns_match(row: Row[tuple[object, ...]], event: EventLine) -> bool:
    columns = (row.run_id, row.kind, row.replica, row.counter)
    return columns == (event.run_id, event.kind, event.replica, event.clock.get(row.replica))


def _trigger_problems(connection: Connection) -> Iterator[IntegrityProblem]:
    for table in APPEND_ONLY:
        if not inspect(connection).has_table(table):
            yield IntegrityProblem(table, "the table is missing")
    is_sqlite = connection.dialect.name == "sqlite"
    found = dict(_sqlite_triggers(connection) if is_sqlite else _postgres_triggers(connection))
    for table in APPEND_ONLY:
        expected = sqlite_triggers(table) if is_sqlite else {f"{table}_no_change": POSTGRES_GUARD}
        for name, body in expected.items():
            if found.get(name) != body:
                how = "was changed" if name in found else "is missing"
                problem = f"the trigger {name} {how}, so rows can be edited"
                yield IntegrityProblem(table, problem)


def _sqlite_triggers(connection: Connection) -> Iterator[tuple[str, str]]:
    query = text("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
    yield from ((row.name, row.sql) for row in connection.execute(query))


def _postgres_triggers(connection: Connection) -> Iterator[tuple[str, str]]:
    """Yield each trigger that runs before any change, with the body of its function."""
    # Disabled triggers exist but do nothing. 58 is BEFORE DELETE OR UPDATE OR TRUNCATE.
    query = text(
        "SELECT tgname, prosrc FROM pg_trigger JOIN pg_proc ON pg_proc.oid = tgfoid "
        "WHERE tgenabled <> 'D' AND tgtype = 58 AND tgqual IS NULL"
    )
    yield from ((row.tgname, row.prosrc) for row in connection.execute(query))


def _read_head(log: EventLog) -> LogHead | LogDamaged | None:
    with log.head_file.locked():
        try:
            return log.head_file.read()
        except LogDamaged as error:
            return error


def _head_problems(
    log: EventLog,
    before: LogHead | LogDamaged | None,
    after: LogHead | LogDamaged | None,
    check: CausalityCheck,
) -> Iterator[IntegrityProblem]:
    if isinstance(before, LogDamaged):
        yield IntegrityProblem("head", str(before))
    elif before is None and check.clocks:
        path = log.head_file.path
        yield IntegrityProblem("head", f"{path} is missing: a truncation would go unnoticed")
    if isinstance(before, LogHead) and not any(
        check.clocks.keys() >= set(state.heads) for state in before.states
    ):
        yield from _missing_heads(check, before.heads)
    if isinstance(after, LogHead):
        for (replica, count), name in check.counters.items():
            if count > log.recorded(after, replica) and log.must_be_recorded(replica):
                problem = "it is beyond the recorded head: somebody added it to the database"
                yield IntegrityProblem(name, problem)


def _merged_problems(
    before: LogHead | LogDamaged | None, after: LogHead | LogDamaged | None, merged: str
) -> Iterator[IntegrityProblem]:
    heads = [
        state for head in (before, after) if isinstance(head, LogHead) for state in head.states
    ]
    known = {head.merged for head in heads} - {""}  # an older version recorded none
    if known and merged not in known:
        yield IntegrityProblem("merged_events", "the marks of merged events were edited")


def _missing_heads(check: CausalityCheck, heads: Iterable[str]) -> Iterator[IntegrityProblem]:
    for name in heads:
        if name not in check.clocks:
            problem = "a recorded head is not in the log (truncated, or restored from a backup?)"
            yield IntegrityProblem(name, problem)
