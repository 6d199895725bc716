"""Verifies a whole log: hashes, causes, clocks, columns, triggers, and the head file."""

from collections.abc import Iterator
from dataclasses import dataclass

from sqlalchemy import Connection, Row, inspect, select, text

from policy.database import read_transaction
from policy.errors import LogDamaged
from policy.log.event_log import EventLog
from policy.log.events import line_digest
from policy.log.head import HeadFile, LogHead
from policy.log.integrity import CausalityCheck, EventLine, IntegrityProblem
from policy.tables import APPEND_ONLY, entities, event_heads, events

_FETCHED_ROWS = 5_000


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
