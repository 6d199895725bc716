"""Events and entities as rows: each function works within the transaction that it is given."""

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from sqlalchemy import Connection, String, Text, bindparam, delete, exists, insert, select, update

from contracts.entity import Entity
from policy.errors import EventsInvalid
from policy.log.events import Event, entity_line, joined_clock
from policy.prepared import Prepared
from policy.tables import (
    entities,
    entity_edges,
    event_entities,
    event_heads,
    events,
    merged_events,
)

_MANY = 500
"""Ids asked for in one query."""

Edge = tuple[str, str, str]
"""Source, kind, target."""

# Statements that every append needs are made once: building them took longer than running them.
_HEADS = Prepared(
    select(events.c.id, events.c.line)
    .join(event_heads, event_heads.c.id == events.c.id)
    .order_by(events.c.id)
)
_KNOWN_EVENTS = select(events.c.id).where(events.c.id.in_(bindparam("ids", expanding=True)))
_ADD_ENTITIES = Prepared(
    insert(entities).from_select(
        ["id", "origin", "line"],
        select(
            bindparam("new", type_=String),
            bindparam("from", type_=Text),
            bindparam("said", type_=Text),
        ).where(~exists().where(entities.c.id == bindparam("new", type_=String))),
    )
)
_ADD_EVENTS = Prepared(
    insert(events).inline(), ("id", "run_id", "kind", "replica", "counter", "line")
)
_ADD_LINKS = Prepared(insert(event_entities).inline(), ("event", "role", "place", "entity"))
_MOVE_HEAD = Prepared(
    update(event_heads).where(event_heads.c.id == bindparam("old")).values(id=bindparam("new"))
)
_DROP_HEADS, _ADD_HEADS = delete(event_heads), insert(event_heads)


class Tip(NamedTuple):
    """Where a log ends: its newest events, and what they know."""

    heads: tuple[str, ...]
    clock: dict[str, int]


def read_tip(connection: Connection) -> Tip:
    """Where the log ends."""
    found = _HEADS.run(connection).fetchall()
    clocks = (json.loads(line)["clock"] for _, line in found)
    return Tip(tuple(name for name, _ in found), joined_clock(clocks))


def known_events(connection: Connection, ids: Collection[str]) -> set[str]:
    """Those of the ids that are events here."""
    return {row[0] for row in connection.execute(_KNOWN_EVENTS, {"ids": list(ids)})}


def batches(ids: Iterable[str]) -> Iterator[list[str]]:
    """The ids, in portions that fit into a query."""
    everything = list(ids)
    for start in range(0, len(everything), _MANY):
        yield everything[start : start + _MANY]


def add_events(connection: Connection, new: Sequence[Event]) -> None:
    """Add events that are not here yet, causes before effects; the heads stay as they are.

    Raises:
        EventsInvalid: one holds text that cannot be kept.
    """
    if not new:
        return
    _ADD_EVENTS.run(connection, [_row(event) for event in new])
    links = [link for event in new for link in _links(event)]
    if links:
        _ADD_LINKS.run(connection, links)
    related = (event.consumes for event in new if event.kind == "relation")
    _add_edges(connection, {(pair[0], "relates_to", pair[1]) for pair in related if len(pair) == 2})


def mark_merged(connection: Connection, new: Sequence[Event]) -> None:
    """Tell that these came from another log; some may be known to, and lost since."""
    for ids in batches(event.id for event in new):
        known = connection.scalars(select(merged_events.c.id).where(merged_events.c.id.in_(ids)))
        marked = set(known)
        if rows := [{"id": name} for name in ids if name not in marked]:
            connection.execute(insert(merged_events), rows)


def add_entities(connection: Connection, made: Iterable[Entity]) -> None:
    """Add the entities that are not here yet.

    Raises:
        EventsInvalid: one holds text that cannot be kept.
    """
    wanted = {entity.id: entity for entity in made}
    if not wanted:
        return
    rows = [{"new": e.id, "from": e.origin, "said": _kept(entity_line(e))} for e in wanted.values()]
    _ADD_ENTITIES.run(connection, rows)
    parts = {(e.id, "part_of", e.part_of) for e in wanted.values() if e.part_of is not None}
    _add_edges(connection, parts)


def move_heads(connection: Connection, old: Sequence[str], new: str) -> None:
    """Let `new` be the head, instead of those that it follows."""
    if len(old) == 1:
        _MOVE_HEAD.run(connection, [{"old": old[0], "new": new}])
        return
    connection.execute(_DROP_HEADS)
    connection.execute(_ADD_HEADS, {"id": new})


def rebuild_heads(connection: Connection) -> None:
    """Make the heads anew from all events."""
    followed: set[str] = set()
    every: set[str] = set()
    for name, line in connection.execute(select(events.c.id, events.c.line)):
        every.add(name)
        followed.update(json.loads(line)["heads"])
    connection.execute(_DROP_HEADS)
    if every - followed:
        connection.execute(_ADD_HEADS, [{"id": head} for head in sorted(every - followed)])


def _add_edges(connection: Connection, edges: set[Edge]) -> None:
    for source in {edge[0] for edge in edges}:
        query = select(entity_edges).where(entity_edges.c.source == source)
        edges = edges - {(row.source, row.kind, row.target) for row in connection.execute(query)}
    if edges:
        names = ("source", "kind", "target")
        rows = [dict(zip(names, edge, strict=True)) for edge in sorted(edges)]
        connection.execute(insert(entity_edges), rows)


def _row(event: Event) -> dict[str, object]:
    return {
        "id": event.id,
        "run_id": event.run_id,
        "kind": event.kind,
        "replica": event.replica,
        "counter": event.counter,
        "line": _kept(event.line),
    }


def _links(event: Event) -> Iterator[dict[str, object]]:
    for role, ids in (("consumes", event.consumes), ("produces", event.produces)):
        for place, name in enumerate(ids):
            yield {"event": event.id, "role": role, "place": place, "entity": name}


def _kept(line: str) -> str:
    try:
        line.encode()
    except UnicodeEncodeError as error:
        raise EventsInvalid(f"an event holds text that is no Unicode: {error}") from error
    return line
