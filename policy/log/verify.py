"""Verifies events: hashes, causes, clocks and, for a whole log, columns, triggers and head file.

Nothing in a line is trusted before its hash fits. A damaged line is reported, never raised.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from pydantic import ValidationError
from sqlalchemy import Connection, Row, inspect, select, text

from policy.database import APPEND_ONLY, entities, event_heads, events, read_transaction
from policy.errors import LogDamaged
from policy.log.event_log import EventLog, HeadFile, LogHead
from policy.log.events import Clock, EventLine, joined_clock, line_digest

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
        self._counters: dict[tuple[str, int], str] = {}
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
        other = self._counters.setdefault((event.replica, count), name)
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
    """Verify the whole log; `heads` are ids, noted elsewhere, of events that must be in it.

    Raises:
        LogUnavailable: the log cannot be read.
    """
    with log.head_file.locked():
        head = _read_head(log.head_file)
    with read_transaction(log.engine) as connection:  # after the head, so that its events are in
        check = CausalityCheck()
        findings = list(_entity_problems(connection, check))
        query = select(events).order_by(events.c.number)
        for row in connection.execution_options(yield_per=_FETCHED_ROWS).execute(query):
            event = check.check_event(row.id, row.line)
            if event is not None and not _columns_match(row, event):
                problem = "a column differs from the event: the row was edited"
                findings.append(IntegrityProblem(row.id, problem))
        findings += check.problems()
        if set(connection.scalars(select(event_heads.c.id))) != check.heads:
            problem = "the table of heads does not hold exactly the events without a successor"
            findings.append(IntegrityProblem("heads", problem))
        findings += _trigger_problems(connection)
    findings += _head_problems(head, log.head_file, check, heads)
    return VerifyResult(
        events=len(check.clocks),
        entities=len(check.entities),
        heads=tuple(sorted(check.heads)),
        findings=tuple(findings),
        notes=tuple(check.warnings),
    )


def _entity_problems(connection: Connection, check: CausalityCheck) -> Iterator[IntegrityProblem]:
    query = select(entities.c.id, entities.c.line)
    for name, line in connection.execution_options(yield_per=_FETCHED_ROWS).execute(query):
        if line_digest(line) != name:
            yield IntegrityProblem(
                name, "the content of the entity does not match its id: it was edited"
            )
        check.entities.add(name)


def _columns_match(row: Row[tuple[object, ...]], event: EventLine) -> bool:
    columns = (row.run_id, row.kind, row.replica, row.counter)
    return columns == (event.run_id, event.kind, event.replica, event.clock.get(row.replica))


def _trigger_problems(connection: Connection) -> Iterator[IntegrityProblem]:
    if connection.dialect.name == "sqlite":
        query = text("SELECT name FROM sqlite_master WHERE type = 'trigger'")
        suffixes: tuple[str, ...] = ("no_update", "no_delete", "no_replace")
    else:
        # Disabled triggers exist but do nothing.
        query = text("SELECT tgname FROM pg_trigger WHERE tgenabled <> 'D'")
        suffixes = ("no_change",)
    triggers = set(connection.scalars(query))
    for table in APPEND_ONLY:
        if not inspect(connection).has_table(table):
            yield IntegrityProblem(table, "the table is missing")
        for suffix in suffixes:
            if f"{table}_{suffix}" not in triggers:
                yield IntegrityProblem(
                    table, f"the trigger {table}_{suffix} is missing, so rows can be edited"
                )


def _read_head(file: HeadFile) -> LogHead | LogDamaged | None:
    try:
        return file.read()
    except LogDamaged as error:
        return error


def _head_problems(
    head: LogHead | LogDamaged | None,
    file: HeadFile,
    check: CausalityCheck,
    heads: tuple[str, ...],
) -> Iterator[IntegrityProblem]:
    if isinstance(head, LogDamaged):
        yield IntegrityProblem("head", str(head))
    elif head is None and check.clocks:
        yield IntegrityProblem("head", f"{file.path} is missing: a truncation would go unnoticed")
    recorded = head.heads if isinstance(head, LogHead) else []
    for name in (*recorded, *heads):
        if name not in check.clocks:
            problem = "a recorded head is not in the log (truncated, or restored from a backup?)"
            yield IntegrityProblem(name, problem)
