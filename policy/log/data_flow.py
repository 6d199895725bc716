"""The data flow of a history: the label of each entity, its origins, and search in both."""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from contracts.entity import Entity, Label, join_labels
from contracts.json import canonical_json
from policy.errors import EntityNotFound
from policy.log.events import Event, History

UNKNOWN_LABEL = Label(taint=frozenset({"unknown"}))
"""The label of an entity that an event names and that is missing."""

_HARMLESS_STATUSES = ("unknown", "pending", "approved", "used")
"""Statuses that do not revoke an approval; any other status does."""

Neighbours = Callable[[str], Iterable[str]]
"""Returns the entities one step away from an entity."""


class Hop(NamedTuple):
    """One step of a path: an entity, and the event that produced it.

    `event` is None for the origin, and for a step that is known only from `entity.sources`.
    """

    event: Event | None
    entity: str


@dataclass(frozen=True, kw_only=True)
class DataFlow:
    """The entities of a history with their labels.

    A label joins the entity's own tags, the labels of everything its producers had in view, and
    the labels of its sources. More events never remove a tag. An endorsement produces a new
    entity without the taint of the endorsed one.
    """

    history: History
    labels: Mapping[str, Label]
    made_by: Mapping[str, Sequence[Event]]
    derived: Mapping[str, Sequence[str]]
    """The entities that were made directly from an entity."""

    def label(self, entity: str) -> Label:
        """Return the label of an entity, `UNKNOWN_LABEL` if it is missing."""
        return self.labels.get(entity, UNKNOWN_LABEL)


def data_flow(history: History) -> DataFlow:
    """Return the data flow of all events of the history."""
    events = history.in_order()
    labels = {name: entity.label for name, entity in history.entities.items()}
    made_by: dict[str, list[Event]] = defaultdict(list)
    derived: dict[str, list[str]] = defaultdict(list)
    for event in events:
        for name in (*event.consumes, *event.produces):
            labels.setdefault(name, UNKNOWN_LABEL)
        for name in event.produces:
            made_by[name].append(event)
        for name in event.consumes:
            derived[name].extend(event.produces)
    for name, entity in history.entities.items():
        for source in entity.sources:
            derived[source].append(name)
    flow = DataFlow(history=history, labels=labels, made_by=made_by, derived=derived)
    _propagate_labels(flow, labels, events)
    return flow


def taint_path(flow: DataFlow, entity: str, tag: str) -> tuple[Hop, ...]:
    """Return the shortest path from an origin of the tag to the entity; empty without the tag."""

    def is_tagged(name: str) -> bool:
        label = flow.label(name)
        return tag in label.caps | label.taint

    if not is_tagged(entity):
        return ()
    onward: dict[str, Hop | None] = {entity: None}
    queue = deque([entity])
    start = entity
    while queue:
        here = queue.popleft()
        inputs = [(e, name) for e, name in _inputs(flow, here) if name != here and is_tagged(name)]
        if not inputs:
            start = here
            break
        for event, name in inputs:
            if name not in onward:
                onward[name] = Hop(event, here)
                queue.append(name)
    path = [Hop(None, start)]
    while (hop := onward[path[-1].entity]) is not None:
        path.append(hop)
    return tuple(path)


def entities_derived_from(flow: DataFlow, entity: str) -> frozenset[str]:
    """Return every entity that was made from this one, over any number of steps."""
    found = within_steps(entity, lambda name: flow.derived.get(name, ()), steps=None)
    return frozenset(found.keys() - {entity})


def entities_losing_tags(before: DataFlow, after: DataFlow) -> tuple[str, ...]:
    """Return the entities that have lost a tag since.

    The tag of a missing entity does not count: it disappears when a merge restores the entity.
    """
    return tuple(
        name
        for name, label in before.labels.items()
        if not after.label(name).covers(
            Label(caps=label.caps, taint=label.taint - UNKNOWN_LABEL.taint)
        )
    )


def was_approved_before(events: Iterable[Event], approval: str, event: Event) -> bool:
    """Return True if `event` follows the approval, and no event anywhere revokes it.

    The answer does not depend on the order of events that do not know of each other.
    """
    changes = [e for e in events if e.kind == "approval" and e.body.get("approval") == approval]
    if any(change.body.get("status") not in _HARMLESS_STATUSES for change in changes):
        return False
    approved = [change for change in changes if change.body.get("status") == "approved"]
    return any(event.clock.get(one.replica, 0) >= one.counter for one in approved)


def find_entity(history: History, prefix: str) -> str:
    """Return the id of the entity with this prefix, or of the one made by the event with it.

    Raises:
        EntityNotFound: there is none, or more than one.
    """
    found = [name for name in history.entities if name.startswith(prefix)] if prefix else []
    if not found and prefix:
        events = [event for name, event in history.events.items() if name.startswith(prefix)]
        found = [name for event in events for name in event.produces]
    if len(found) != 1:
        count = f"{len(found)} entities have" if found else "no entity or event has"
        raise EntityNotFound(
            f"{count} an id that begins with {prefix!r}; `harness events log` shows ids"
        )
    return found[0]


def search_entities(history: History, text: str, *, limit: int) -> list[Entity]:
    """Return the entities whose content or origin contains every word of `text`, newest first.

    Case is ignored, and a word is also found inside a longer one.
    """
    words = text.casefold().split()
    newest = {name: n for n, event in enumerate(history.in_order()) for name in event.produces}
    order = sorted(history.entities, key=lambda name: (-newest.get(name, -1), name))
    found: list[Entity] = []
    for entity in (history.entities[name] for name in order):
        content = entity.content
        content_text = content if isinstance(content, str) else canonical_json(content)
        searched = f"{entity.origin}\n{content_text}".casefold()
        if all(word in searched for word in words):
            found.append(entity)
    return found[:limit]


@dataclass(frozen=True)
class EntityGraph:
    """Relations between entities: made from, part of, relates to."""

    onward: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """From an entity to those made from it, its parts, and those it relates to."""
    backward: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def neighbours(self, name: str) -> list[str]:
        """Return the entities one step away in either direction."""
        return [*sorted(self.onward[name]), *sorted(self.backward[name])]

    def between(self, start: str, end: str) -> frozenset[str]:
        """Return the entities on any path from start to end, both included."""
        after = within_steps(start, self.onward.__getitem__, steps=None).keys()
        before = within_steps(end, self.backward.__getitem__, steps=None).keys()
        return frozenset(after & before)


def entity_graph(history: History) -> EntityGraph:
    """Return the relations that events and entities of this history state."""
    graph = EntityGraph()
    events = history.events.values()
    pairs = [(source, made) for e in events for source in e.consumes for made in e.produces]
    pairs += [(e.part_of, e.id) for e in history.entities.values() if e.part_of is not None]
    relations = (event.consumes for event in events if event.kind == "relation")
    pairs += [(ends[0], ends[1]) for ends in relations if len(ends) == 2]
    for source, target in pairs:
        graph.onward[source].add(target)
        graph.backward[target].add(source)
    return graph


def within_steps(start: str, neighbours: Neighbours, *, steps: int | None = 1) -> dict[str, int]:
    """Return each entity at most this many steps away, with its distance; None is no limit."""
    distances, queue = {start: 0}, deque([start])
    while queue:
        here = queue.popleft()
        if distances[here] == steps:
            continue
        for name in neighbours(here):
            if name not in distances:
                distances[name] = distances[here] + 1
                queue.append(name)
    return distances


def _inputs(flow: DataFlow, entity: str) -> Iterator[tuple[Event | None, str]]:
    consumed = set()
    for event in flow.made_by.get(entity, ()):
        for name in event.consumes:
            consumed.add(name)
            yield event, name
    made = flow.history.entities.get(entity)
    for source in made.sources if made is not None else ():
        if source not in consumed:
            yield None, source


def _propagate_labels(flow: DataFlow, labels: dict[str, Label], events: Sequence[Event]) -> None:
    """Let each label grow until nothing changes: the least labels that satisfy every event."""
    # One pass in order is not enough: the same entity may be produced again from its descendants.
    approvals = [event for event in events if event.kind == "approval"]
    endorsements = {event.id for event in events if _is_endorsement(event, approvals)}
    queue = deque(labels)
    queued = set(queue)
    while queue:
        name = queue.popleft()
        queued.discard(name)
        label = _grown_label(flow, endorsements, name)
        if label != labels[name]:
            labels[name] = label
            new = [other for other in flow.derived.get(name, ()) if other not in queued]
            queue.extend(new)
            queued.update(new)


def _grown_label(flow: DataFlow, endorsements: set[str], name: str) -> Label:
    """Return the label of one entity by the present labels of everything it was made from."""
    makers = flow.made_by.get(name, ())
    inputs = [(event.id in endorsements, event.consumes) for event in makers]
    if name in flow.history.entities:
        endorsed = any(event.id in endorsements for event in makers)
        inputs.append((endorsed, flow.history.entities[name].sources))
    label = flow.labels[name]
    for endorsed, names in inputs:
        seen = join_labels(flow.label(other) for other in names)
        # Endorsing removes taint only: restrictions on readers remain.
        label = label.join(Label(caps=seen.caps) if endorsed else seen)
    return label


def _is_endorsement(event: Event, approvals: Sequence[Event]) -> bool:
    approval = event.body.get("approval")
    return (
        event.kind == "endorsement"
        and isinstance(approval, str)
        and was_approved_before(approvals, approval, event)
    )
