"""The event log: an append-only table of events."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypeVar

from pydantic import BaseModel, ValidationError
from sqlalchemy import Column, Connection, Engine, delete, func, insert, select

from contracts.entity import Entity
from contracts.json import Json, json_digest
from policy.database import (
    entities,
    event_heads,
    events,
    merged_events,
    read_transaction,
    write_transaction,
)
from policy.errors import EventsInvalid, LogDamaged
from policy.log.data_flow import data_flow, entities_losing_tags
from policy.log.events import (
    Draft,
    EntityLine,
    Event,
    EventLine,
    History,
    Kind,
    entity_line,
    joined_clock,
    merge,
    place_drafts,
)
from policy.log.head import HeadFile, LogHead

_T = TypeVar("_T", bound=BaseModel)

_BATCH = 500
"""Ids in one query; SQLite allowed 999 parameters before version 3.32."""


@dataclass
class LogTransaction:
    """An open transaction of the log's database; its drafts are appended at its end.

    `events` are the appended events, once the transaction is over.
    """

    connection: Connection
    drafts: list[Draft] = field(default_factory=list)
    events: tuple[Event, ...] = ()


@dataclass(frozen=True, kw_only=True)
class EventLog:
    """The events of this machine, the `replica`, and of the logs that were merged into it."""

    engine: Engine
    replica: str
    head_file: HeadFile
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    def append(self, drafts: Iterable[Draft]) -> tuple[Event, ...]:
        """Append these events in order: all of them, or none.

        Raises:
            LogUnavailable: the log cannot be written.
            LogDamaged: the log lacks events that its head names.
            EventsInvalid: a draft holds text that is not Unicode.
        """
        new = tuple(drafts)
        if not new:
            return ()
        with self.transaction() as transaction:
            transaction.drafts.extend(new)
        return transaction.events

    @contextmanager
    def transaction(self) -> Iterator[LogTransaction]:
        """Open a transaction that also appends its drafts: both happen, or neither.

        Raises:
            LogUnavailable, LogDamaged, EventsInvalid: as `append`.
        """
        with self.head_file.locked():
            known = self.head_file.read()
            with write_transaction(self.engine) as connection:
                transaction = LogTransaction(connection)
                yield transaction
                if not transaction.drafts:
                    return
                before = read_head(connection)
                # Before the append: it would write a new head, and hide the change for good.
                self._refuse_other_head(connection, known, before)
                head = self._append(transaction, before)
                self.head_file.write(before.model_copy(update={"next": head}))
            self.head_file.write(head)

    def _append(self, transaction: LogTransaction, before: LogHead) -> LogHead:
        connection, drafts = transaction.connection, transaction.drafts
        placed = place_drafts(drafts, before.heads, before.clock, self.replica, self.now)
        _add_entities(connection, (made for draft in drafts for made in draft.produces))
        add_events(connection, placed)
        _set_heads(connection, [placed[-1].id])
        transaction.events = placed
        clock = dict(placed[-1].clock)
        return LogHead(heads=(placed[-1].id,), clock=clock, merged=before.merged)

    def _refuse_other_head(
        self, connection: Connection, known: LogHead | None, now: LogHead
    ) -> None:
        """Refuse a log that was cut, or that holds events which nobody recorded."""
        if known is None or any(set(now.heads) == set(one.heads) for one in known.states):
            return
        _refuse_if_cut(connection, known, now)
        beyond = [name for name, count in now.clock.items() if count > self.recorded(known, name)]
        if any(self.must_be_recorded(name) for name in beyond):
            raise LogDamaged(
                "the event log holds events beyond its recorded head: somebody added them to the "
                "database. Run `harness events verify`; `--accept` keeps them"
            )

    def must_be_recorded(self, replica: str) -> bool:
        """Return True if the head file knows all events of this machine.

        Several machines may share one database server; each has a head file of its own.
        """
        return replica == self.replica or self.engine.dialect.name == "sqlite"

    @staticmethod
    def recorded(known: LogHead, replica: str) -> int:
        """Return the number of the newest event of a machine that the head file may know."""
        return max(state.clock.get(replica, 0) for state in known.states)

    def merge(self, history: History) -> int:
        """Add the events of another log that are missing here; return how many were new.

        `history` is consistent, as `read_export` ensures. It may restore events lost here.

        Raises:
            EventsInvalid: it conflicts with this log, so nothing was added: it would remove taint
                from an entity, or two machines have the same name.
            LogUnavailable: the log cannot be written.
        """
        with self.head_file.locked():
            here = self.history()
            _check_merge(here, history)
            new = [event for event in history.in_order() if event.id not in here.events]
            with write_transaction(self.engine) as connection:
                _add_entities(connection, history.entities.values())
                add_events(connection, new)
                # The mark of an event remains when the event itself was lost.
                unmarked = _missing(connection, merged_events.c.id, [event.id for event in new])
                if unmarked:
                    connection.execute(insert(merged_events), [{"id": one} for one in unmarked])
                head = rebuild_heads(connection)
            self.head_file.write(head)
        return len(new)

    def accept_heads(self) -> None:
        """Write the log's present heads to the head file, after a person checked the log."""
        with self.head_file.locked():
            with write_transaction(self.engine) as connection:
                head = rebuild_heads(connection)
            self.head_file.write(head)

    def head(self) -> LogHead:
        """Return the heads and the clock of the log."""
        with read_transaction(self.engine) as connection:
            return read_head(connection)

    def events(
        self,
        run_id: str | None = None,
        *,
        kind: Kind | None = None,
        limit: int | None = None,
        merged: bool = True,
    ) -> tuple[Event, ...]:
        """Return the events of a run, or all, in the same order on every replica.

        `limit` keeps the newest ones. `merged=False` omits events from other logs, which must not
        influence how a run continues on this machine.

        Raises:
            LogDamaged: an event cannot be read.
        """
        query = select(events.c.line).order_by(events.c.number.desc()).limit(limit)
        if run_id is not None:
            query = query.where(events.c.run_id == run_id)
        if kind is not None:
            query = query.where(events.c.kind == kind)
        if not merged:
            query = query.where(events.c.id.not_in(select(merged_events.c.id)))
        with read_transaction(self.engine) as connection:
            found = [_read(EventLine, row[0]).event() for row in connection.execute(query)]
        return tuple(sorted(found, key=lambda event: event.sort_key))

    def last_number(self) -> int:
        """Return the number of the newest event, or 0 for an empty log."""
        with read_transaction(self.engine) as connection:
            return connection.execute(select(func.max(events.c.number))).scalar() or 0

    def events_after(
        self, number: int, *, run_id: str | None = None, limit: int = 1_000
    ) -> list[tuple[int, Event]]:
        """Return the events after this number, each with its own, for following the log."""
        query = select(events.c.number, events.c.line).where(events.c.number > number)
        if run_id is not None:
            query = query.where(events.c.run_id == run_id)
        with read_transaction(self.engine) as connection:
            rows = connection.execute(query.order_by(events.c.number).limit(limit))
            return [(row[0], _read(EventLine, row[1]).event()) for row in rows]

    def entities(self, ids: Iterable[str]) -> dict[str, Entity]:
        """Return the entities with these ids; unknown ids are omitted."""
        with read_transaction(self.engine) as connection:
            return {
                row[0]: _read(EntityLine, row[1]).entity()
                for batch in _batches(list(ids))
                for row in connection.execute(
                    select(entities.c.id, entities.c.line).where(entities.c.id.in_(batch))
                )
            }

    def history(self, run_id: str | None = None) -> History:
        """Return the events of a run, or all, with every entity that they name."""
        found = self.events(run_id)
        named = {name for event in found for name in (*event.consumes, *event.produces)}
        return History(events={event.id: event for event in found}, entities=self.entities(named))


def read_head(connection: Connection) -> LogHead:
    """Return the heads and the clock of the log."""
    rows = connection.execute(
        select(events.c.id, events.c.line)
        .join(event_heads, event_heads.c.id == events.c.id)
        .order_by(events.c.id)
    ).all()
    clock = joined_clock(json.loads(row.line)["clock"] for row in rows)
    heads = tuple(row.id for row in rows)
    return LogHead(heads=heads, clock=clock, merged=merged_digest(connection))


def merged_digest(connection: Connection) -> str:
    """Return a digest of the ids of all events that came from another log."""
    found: list[Json] = sorted(connection.scalars(select(merged_events.c.id)))
    return json_digest(found)


def add_events(connection: Connection, new: Sequence[Event]) -> None:
    """Insert new events, causes before effects, without changing the heads.

    Raises:
        EventsInvalid: an event holds text that is not Unicode.
    """
    columns = ("id", "run_id", "kind", "replica", "counter")
    rows = [
        {name: getattr(event, name) for name in columns} | {"line": _unicode(event.line)}
        for event in new
    ]
    if rows:
        connection.execute(insert(events), rows)


def rebuild_heads(connection: Connection) -> LogHead:
    """Compute the heads again from all events, and return them."""
    ids, followed = set[str](), set[str]()
    for name, line in connection.execute(select(events.c.id, events.c.line)):
        ids.add(name)
        followed.update(json.loads(line)["heads"])
    _set_heads(connection, sorted(ids - followed))
    return read_head(connection)


def _set_heads(connection: Connection, heads: Sequence[str]) -> None:
    connection.execute(delete(event_heads))
    if heads:
        connection.execute(insert(event_heads), [{"id": head} for head in heads])


def _add_entities(connection: Connection, made: Iterable[Entity]) -> None:
    new = {entity.id: entity for entity in made}
    rows = [
        {"id": name, "origin": new[name].origin, "line": _unicode(entity_line(new[name]))}
        for name in _missing(connection, entities.c.id, list(new))
    ]
    if rows:
        connection.execute(insert(entities), rows)


def _missing(connection: Connection, column: Column[str], ids: Sequence[str]) -> list[str]:
    """Return the ids that the column does not hold."""
    known = {
        found
        for batch in _batches(ids)
        for found in connection.scalars(select(column).where(column.in_(batch)))
    }
    return [name for name in ids if name not in known]


def _batches(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(ids), _BATCH):
        yield ids[start : start + _BATCH]


def _unicode(line: str) -> str:
    try:
        line.encode()
    except UnicodeEncodeError as error:
        raise EventsInvalid(f"an event holds text that is not Unicode: {error}") from error
    return line


def _read(model: type[_T], line: str) -> _T:
    try:
        return model.model_validate_json(line)
    except ValidationError as error:
        raise LogDamaged(
            f"the event log has a damaged line: {line[:60]!r}. Run `harness events verify`"
        ) from error


def _refuse_if_cut(connection: Connection, head: LogHead | None, now: LogHead) -> None:
    if head is None or set(head.heads) <= set(now.heads):
        return
    missing = _missing(connection, events.c.id, head.heads)
    if missing:
        raise LogDamaged(
            f"the event log lacks {len(missing)} of its newest events (truncated, or restored "
            "from a backup?). Run `harness events verify`, or `harness events merge` with an "
            "export that holds them"
        )
    if any(count > now.clock.get(replica, 0) for replica, count in head.clock.items()):
        raise LogDamaged(
            "the recorded heads of the event log are older than the last known state (restored "
            "from a backup?). Run `harness events verify`, or `harness events merge` with an "
            "export to compute them again"
        )


def _check_merge(here: History, theirs: History) -> None:
    # Two events with one number fork the history of a machine, so its clock proves nothing.
    counters = {(event.replica, event.counter): event.id for event in here.events.values()}
    for event in theirs.events.values():
        if counters.setdefault((event.replica, event.counter), event.id) != event.id:
            raise EventsInvalid(
                f"event {event.id} and an event of this log are both number {event.counter} of "
                f"{event.replica!r}: two machines have the same name, or one log was restored "
                "from a backup. Nothing was merged"
            )
    losing = entities_losing_tags(data_flow(here), data_flow(merge(here, theirs)))
    if losing:
        raise EventsInvalid(
            f"merging would remove taint from entity {losing[0]} of this log. Nothing was merged; "
            "approve the entity on this machine if you trust it"
        )
