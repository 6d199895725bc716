"""Finds entities of the event log: by words, and by which was made from which."""

from collections.abc import Callable, Sequence

from sqlalchemy import (
    ColumnElement,
    CompoundSelect,
    Engine,
    String,
    and_,
    bindparam,
    func,
    select,
    union,
)

from contracts.entity import Entity
from contracts.json import canonical_json
from policy.database import read_transaction
from policy.errors import EntityNotFound
from policy.log.event_log import EventLog
from policy.log.rows import batches
from policy.tables import entities, entity_edges, event_entities, events

_Ends = tuple[ColumnElement[str], ColumnElement[str]]


def search_entities(log: EventLog, text: str, *, limit: int) -> list[Entity]:
    """Entities whose content or origin contains every word of `text`, the newest first.

    Case does not matter, and a word is also found inside a longer one.
    """
    words = text.casefold().split()
    found: list[Entity] = []
    for some in batches(_newest_first(log.engine)):
        there = log.entities(some)
        found += (there[name] for name in some if _contains(there[name], words))
        if len(found) >= limit:
            break
    return found[:limit]


def entity_id_by_prefix(engine: Engine, prefix: str) -> str:
    """The id of the only entity whose id begins with `prefix`.

    Raises:
        EntityNotFound: none, or several.
    """
    query = select(entities.c.id).where(entities.c.id.startswith(prefix, autoescape=True)).limit(2)
    with read_transaction(engine) as connection:
        found = [row[0] for row in connection.execute(query)] if prefix else []
    if len(found) != 1:
        many = "more than one entity begins" if found else "there is no entity"
        raise EntityNotFound(f"{many} with {prefix!r}: `harness events log --json` names them")
    return str(found[0])


def neighbours(engine: Engine) -> Callable[[str], list[str]]:
    """The entities one step away in either direction: for `policy.log.find`."""
    ahead, behind = entities_made_from(engine), entities_used_by(engine)
    return lambda name: [*ahead(name), *behind(name)]


def entities_made_from(engine: Engine) -> Callable[[str], list[str]]:
    """The entities made from an entity, its parts, and those that it relates to."""
    source, target = entity_edges.c.source, entity_edges.c.target
    return _one_step(
        engine, ("consumes", "produces"), part_of=(target, source), relates_to=(source, target)
    )


def entities_used_by(engine: Engine) -> Callable[[str], list[str]]:
    """The entities an entity was made from, what it is part of, and those that relate to it."""
    source, target = entity_edges.c.source, entity_edges.c.target
    return _one_step(
        engine, ("produces", "consumes"), part_of=(source, target), relates_to=(target, source)
    )


def _one_step(
    engine: Engine, roles: tuple[str, str], *, part_of: _Ends, relates_to: _Ends
) -> Callable[[str], list[str]]:
    """From the entity in the first role, or first column, to those in the second."""
    first, then = event_entities.alias(), event_entities.alias()
    here = bindparam("here", type_=String)
    by_event = (
        select(then.c.entity)
        .join(first, first.c.event == then.c.event)
        .where(first.c.role == roles[0], first.c.entity == here, then.c.role == roles[1])
    )
    by_edge = (
        select(end).where(entity_edges.c.kind == kind, start == here)
        for kind, (start, end) in (("part_of", part_of), ("relates_to", relates_to))
    )
    query = union(by_event, *by_edge)
    return lambda name: _ids(engine, query, name)


def _ids(engine: Engine, query: CompoundSelect[tuple[str]], name: str) -> list[str]:
    with read_transaction(engine) as connection:
        return sorted(row[0] for row in connection.execute(query, {"here": name}))


def _newest_first(engine: Engine) -> list[str]:
    """The ids of all entities, in the order of the last event that produced each."""
    produced = and_(event_entities.c.entity == entities.c.id, event_entities.c.role == "produces")
    newest = func.coalesce(func.max(events.c.number), 0)
    query = (
        select(entities.c.id)
        .outerjoin(event_entities, produced)
        .outerjoin(events, events.c.id == event_entities.c.event)
        .group_by(entities.c.id)
        .order_by(newest.desc(), entities.c.id)
    )
    with read_transaction(engine) as connection:
        return [row[0] for row in connection.execute(query)]


def _contains(entity: Entity, words: Sequence[str]) -> bool:
    content = entity.content
    text = content if isinstance(content, str) else canonical_json(content)
    searched = f"{entity.origin}\n{text}".casefold()
    return all(word in searched for word in words)
