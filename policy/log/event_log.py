"""The event log: a database that is only added to, and its head, kept outside."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar

from sqlalchemy import Connection, Engine, func, select

from contracts.entity import Entity
from policy.database import read_transaction, write_transaction
from policy.errors import LogDamaged
from policy.log.events import Draft, Event, Kind, entity_from_line, event_from_line, place_drafts
from policy.log.head import HeadFile, LogHead
from policy.log.history import History
from policy.log.merge_check import check_merge
from policy.log.rows import (
    Tip,
    add_entities,
    add_events,
    batches,
    known_events,
    mark_merged,
    move_heads,
    read_tip,
    rebuild_heads,
)
from policy.tables import entities, events, merged_events

T = TypeVar("T")


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, kw_only=True)
class EventLog:
    """What this machine, the `replica`, and those it was merged with have seen happen."""

    engine: Engine
    replica: str
    head_file: HeadFile
    now: Callable[[], datetime] = _now

    def append(self, drafts: Iterable[Draft]) -> tuple[Event, ...]:
        """Give these their place, one after the other; all of them are kept, or none.

        Raises:
            LogUnavailable: the log cannot be written.
            LogDamaged: it lacks what its head names; nothing is added to it then.
            EventsInvalid: a draft holds text that cannot be kept.
        """
        new = tuple(drafts)
        if not new:
            return ()
        with self.head_file.locked():
            kept = self.head_file.read()
            with write_transaction(self.engine) as connection:
                before = read_tip(connection)
                _refuse_if_cut(connection, kept, before)
                placed = place_drafts(new, before.heads, before.clock, self.replica, self.now)
                add_entities(connection, (made for draft in new for made in draft.produces))
                add_events(connection, placed)
                move_heads(connection, before.heads, placed[-1].id)
            self.head_file.write([placed[-1].id], placed[-1].clock)
        return placed

    def merge(self, history: History) -> int:
        """Add what another log has and this one has not; gives the number of new events.

        `history` hangs together, as `log_file.read` makes sure. It may bring back what was lost
        here.

        Raises:
            EventsInvalid: it would take taint from an entity, or holds other events of a machine
                that is known here by the same name and count; nothing is added then.
            LogUnavailable: the log cannot be written.
        """
        with self.head_file.locked():
            here = self.history()
            check_merge(here, history)
            new = [event for event in history.in_order() if event.id not in here.events]
            with write_transaction(self.engine) as connection:
                add_entities(connection, history.entities.values())
                add_events(connection, new)
                mark_merged(connection, new)
                rebuild_heads(connection)
                after = read_tip(connection)
            self.head_file.write(*after)
        return len(new)

    def accept_heads(self) -> Tip:
        """Keep the head of the log as it is now, after a person looked at what is wrong with it."""
        with self.head_file.locked():
            with write_transaction(self.engine) as connection:
                rebuild_heads(connection)
                now = read_tip(connection)
            self.head_file.write(*now)
        return now

    def tip(self) -> Tip:
        """Where the log ends now."""
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
        """The events of a run, or all, in the order that every replica gives them.

        `limit` keeps those that came last. Without `merged` those are left out that came from
        another log: whoever goes on with a run goes by what happened here.

        Raises:
            LogDamaged: one is not whole.
        """
        query = select(events.c.line).order_by(events.c.number.desc()).limit(limit)
        if run_id is not None:
            query = query.where(events.c.run_id == run_id)
        if kind is not None:
            query = query.where(events.c.kind == kind)
        if not merged:
            query = query.where(events.c.id.not_in(select(merged_events.c.id)))
        with read_transaction(self.engine) as connection:
            found = [_event(row[0]) for row in connection.execute(query)]
        return tuple(sorted(found, key=lambda event: event.sort_key))

    def last_number(self) -> int:
        """The number of the event that came last; 0 before the first."""
        with read_transaction(self.engine) as connection:
            return connection.execute(select(func.max(events.c.number))).scalar() or 0

    def events_after(
        self, number: int, *, run_id: str | None = None, limit: int = 1_000
    ) -> list[tuple[int, Event]]:
        """The events after this number, each with its own: for those who follow the log."""
        query = select(events.c.number, events.c.line).where(events.c.number > number)
        if run_id is not None:
            query = query.where(events.c.run_id == run_id)
        with read_transaction(self.engine) as connection:
            rows = connection.execute(query.order_by(events.c.number).limit(limit))
            return [(row[0], _event(row[1])) for row in rows]

    def entities(self, ids: Iterable[str]) -> dict[str, Entity]:
        """The entities that have these ids; those that are not there are left out."""
        with read_transaction(self.engine) as connection:
            return {
                row[0]: _read(entity_from_line, "entity", row[1])
                for some in batches(ids)
                for row in connection.execute(
                    select(entities.c.id, entities.c.line).where(entities.c.id.in_(some))
                )
            }

    def history(self, run_id: str | None = None) -> History:
        """Events of a run, or all, with every entity that they name."""
        found = self.events(run_id)
        named = {name for event in found for name in (*event.consumes, *event.produces)}
        return History(events={event.id: event for event in found}, entities=self.entities(named))


def _event(line: str) -> Event:
    return _read(event_from_line, "event", line)


def _read(of: Callable[[str], T], what: str, line: str) -> T:
    try:
        return of(line)
    except (ValueError, KeyError, TypeError) as error:
        raise LogDamaged(
            f"an {what} cannot be read: {line[:60]!r}. `harness events verify` says more"
        ) from error


def _refuse_if_cut(connection: Connection, kept: LogHead | None, before: Tip) -> None:
    if kept is None or set(kept.heads) <= set(before.heads):
        return
    there = known_events(connection, kept.heads)
    if len(there) < len(kept.heads):
        raise LogDamaged(
            f"the event log lacks {len(kept.heads) - len(there)} of its newest events: it was cut "
            "short or put back. `harness events verify` says more; `harness events merge` of an "
            "export brings back what it holds"
        )
    if any(count > before.clock.get(replica, 0) for replica, count in kept.clock.items()):
        raise LogDamaged(
            "the event log's heads know less than was known before: they were put back. "
            "`harness events verify` says more; `harness events merge` of an export finds them anew"
        )
