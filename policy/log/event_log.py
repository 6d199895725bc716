"""The event log: an append-only table of events, with its head in a file outside the database."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple, TypeVar

from sqlalchemy import Connection, Engine, Select, bindparam, delete, func, insert, select

from contracts.entity import Entity
from policy.database import read_transaction, write_transaction
from policy.errors import EventsInvalid, LogDamaged
from policy.log.events import (
    Draft,
    Event,
    Kind,
    entity_from_line,
    entity_line,
    event_from_line,
    joined_clock,
    place_drafts,
)
from policy.log.head import HeadFile, LogHead
from policy.log.history import History, merge
from policy.log.taint import data_flow, entities_losing_tags
from policy.tables import entities, event_heads, events, merged_events

T = TypeVar("T")

# Statements of every append are built once: SQLAlchemy builds one more slowly than SQLite runs it.
_READ_TIP = (
    select(events.c.id, events.c.line)
    .join(event_heads, event_heads.c.id == events.c.id)
    .order_by(events.c.id)
)
_KNOWN_ENTITIES, _KNOWN_EVENTS, _KNOWN_MERGED = (
    select(table.c.id).where(table.c.id.in_(bindparam("ids", expanding=True)))
    for table in (entities, events, merged_events)
)
_ADD_ENTITIES, _ADD_EVENTS, _ADD_HEADS = insert(entities), insert(events), insert(event_heads)
_DROP_HEADS = delete(event_heads)

_BATCH = 500
"""Ids in one query; SQLite allowed 999 parameters before version 3.32."""


class Tip(NamedTuple):
    """The ids of a log's newest events, and their joined clock."""

    heads: tuple[str, ...]
    clock: dict[str, int]


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, kw_only=True)
class EventLog:
    """The events of this machine, the `replica`, and of the logs that were merged into it."""

    engine: Engine
    replica: str
    head_file: HeadFile
    now: Callable[[], datetime] = _now

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
        with self.head_file.locked():
            head = self.head_file.read()
            with write_transaction(self.engine) as connection:
                before = read_tip(connection)
                _refuse_if_cut(connection, head, before)
                placed = place_drafts(new, before.heads, before.clock, self.replica, self.now)
                _add_entities(connection, (made for draft in new for made in draft.produces))
                add_events(connection, placed)
                _set_heads(connection, [placed[-1].id])
            self.head_file.write([placed[-1].id], placed[-1].clock)
        return placed

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
                unmarked = _missing(connection, _KNOWN_MERGED, [event.id for event in new])
                if unmarked:
                    connection.execute(insert(merged_events), [{"id": one} for one in unmarked])
                rebuild_heads(connection)
                tip = read_tip(connection)
            self.head_file.write(*tip)
        return len(new)

    def accept_heads(self) -> Tip:
        """Write the log's present heads to the head file, after a person checked the log."""
        with self.head_file.locked():
            with write_transaction(self.engine) as connection:
                rebuild_heads(connection)
                tip = read_tip(connection)
            self.head_file.write(*tip)
        return tip

    def tip(self) -> Tip:
        """Return the heads and the clock of the log."""
        with read_transaction(self.engine) as connection:
            return read_tip(connection)

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
            found = [_read(event_from_line, row[0]) for row in connection.execute(query)]
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
            return [(row[0], _read(event_from_line, row[1])) for row in rows]

    def entities(self, ids: Iterable[str]) -> dict[str, Entity]:
        """Return the entities with these ids; unknown ids are omitted."""
        with read_transaction(self.engine) as connection:
            return {
                row[0]: _read(entity_from_line, row[1])
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


def read_tip(connection: Connection) -> Tip:
    """Return the heads and the clock of the log."""
    rows = connection.execute(_READ_TIP).all()
    clocks = (json.loads(row.line)["clock"] for row in rows)
    return Tip(tuple(row.id for row in rows), joined_clock(clocks))


def add_events(connection: Connection, new: Sequence[Event]) -> None:
    """Insert new events, causes before effects, without changing the heads.

    Raises:
        EventsInvalid: an event holds text that is not Unicode.
    """
    rows = [
        {
            "id": event.id,
            "run_id": event.run_id,
            "kind": event.kind,
            "replica": event.replica,
            "counter": event.counter,
            "line": _unicode(event.line),
        }
        for event in new
    ]
    if rows:
        connection.execute(_ADD_EVENTS, rows)


def rebuild_heads(connection: Connection) -> None:
    """Compute the heads again from all events."""
    ids: set[str] = set()
    followed: set[str] = set()
    for name, line in connection.execute(select(events.c.id, events.c.line)):
        ids.add(name)
        followed.update(json.loads(line)["heads"])
    _set_heads(connection, sorted(ids - followed))


def _set_heads(connection: Connection, heads: Sequence[str]) -> None:
    connection.execute(_DROP_HEADS)
    if heads:
        connection.execute(_ADD_HEADS, [{"id": head} for head in heads])


def _add_entities(connection: Connection, made: Iterable[Entity]) -> None:
    new = {entity.id: entity for entity in made}
    rows = [
        {"id": name, "origin": new[name].origin, "line": _unicode(entity_line(new[name]))}
        for name in _missing(connection, _KNOWN_ENTITIES, list(new))
    ]
    if rows:
        connection.execute(_ADD_ENTITIES, rows)


def _missing(connection: Connection, query: Select[tuple[str]], ids: Sequence[str]) -> list[str]:
    """Return the ids that the query does not find."""
    known = {
        found for batch in _batches(ids) for found in connection.scalars(query, {"ids": batch})
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


def _read(parse: Callable[[str], T], line: str) -> T:
    try:
        return parse(line)
    except (ValueError, KeyError, TypeError) as error:
        raise LogDamaged(
            f"the event log has a damaged line: {line[:60]!r}. Run `harness events verify`"
        ) from error


def _refuse_if_cut(connection: Connection, head: LogHead | None, tip: Tip) -> None:
    if head is None or set(head.heads) <= set(tip.heads):
        return
    missing = _missing(connection, _KNOWN_EVENTS, head.heads)
    if missing:
        raise LogDamaged(
            f"the event log lacks {len(missing)} of its newest events (truncated, or restored "
            "from a backup?). Run `harness events verify`, or `harness events merge` with an "
            "export that holds them"
        )
    if any(count > tip.clock.get(replica, 0) for replica, count in head.clock.items()):
        raise LogDamaged(
            "the recorded heads of the event log are older than the last known state (restored "
            "from a backup?). Run `harness events verify`, or `harness events merge` with an "
            "export to compute them again"
        )


def _check_merge(here: History, theirs: History) -> None:
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
