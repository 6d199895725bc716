"""The data-flow graph of a history, and the label that each entity has by it."""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from contracts.entity import Label, join_labels
from policy.log.events import Event
from policy.log.history import History

UNKNOWN_LABEL = Label(taint=frozenset({"unknown"}))
"""The label of an entity that an event names and that is missing."""

_HARMLESS_STATUSES = ("unknown", "pending", "approved", "used")
"""Statuses that do not revoke an approval; any other status does."""


class Hop(NamedTuple):
    """One step of a path: an entity, and the event that produced it.

    `event` is None for the origin, and for a step that is known only from `entity.sources`.
    """

    event: Event | None
    entity: str


@dataclass(frozen=True, kw_only=True)
class DataFlow:
    """The entities of a history with their labels, and the events that produced and used them.

    A label joins the entity's own tags, the labels of everything its producers had in view, and
    the labels of its sources. More events never remove a tag. An endorsement produces a new
    entity without the taint of the endorsed one.
    """

    history: History
    labels: Mapping[str, Label]
    made_by: Mapping[str, tuple[Event, ...]]
    used_by: Mapping[str, tuple[Event, ...]]

    def label(self, entity: str) -> Label:
        """Return the label of an entity, `UNKNOWN_LABEL` if it is missing."""
        return self.labels.get(entity, UNKNOWN_LABEL)


def data_flow(history: History) -> DataFlow:
    """Return the data flow of all events of the history."""
    events = history.in_order()
    made_by: dict[str, list[Event]] = defaultdict(list)
    used_by: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        for name in event.produces:
            made_by[name].append(event)
        for name in event.consumes:
            used_by[name].append(event)
    flow = DataFlow(
        history=history,
        labels={},
        made_by={name: tuple(makers) for name, makers in made_by.items()},
        used_by={name: tuple(users) for name, users in used_by.items()},
    )
    return DataFlow(
        history=history,
        labels=_propagated_labels(flow, events),
        made_by=flow.made_by,
        used_by=flow.used_by,
    )


def taint_path(flow: DataFlow, entity: str, tag: str) -> tuple[Hop, ...]:
    """Return the shortest path from an origin of the tag to the entity; empty without the tag."""
    if tag not in _tags(flow.label(entity)):
        return ()
    onward: dict[str, Hop | None] = {entity: None}
    queue = deque([entity])
    while queue:
        here = queue.popleft()
        inputs = [
            (event, name)
            for event, name in _inputs(flow, here)
            if name != here and tag in _tags(flow.label(name))
        ]
        if not inputs:
            return _path(here, onward)
        for event, name in inputs:
            if name not in onward:
                onward[name] = Hop(event, here)
                queue.append(name)
    return _path(entity, onward)


def entities_derived_from(flow: DataFlow, entity: str) -> frozenset[str]:
    """Return every entity that was made from this one, over any number of steps."""
    derived = _derived(flow)
    seen, queue = {entity}, [entity]
    while queue:
        new = [name for name in derived(queue.pop()) if name not in seen]
        seen.update(new)
        queue.extend(new)
    return frozenset(seen - {entity})


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


def _path(start: str, onward: Mapping[str, Hop | None]) -> tuple[Hop, ...]:
    path = [Hop(None, start)]
    while (hop := onward.get(path[-1].entity)) is not None:
        path.append(hop)
    return tuple(path)


def _tags(label: Label) -> frozenset[str]:
    return label.caps | label.taint


def _derived(flow: DataFlow) -> Callable[[str], Iterator[str]]:
    """Return a function that yields the entities made directly from an entity."""
    children: dict[str, list[str]] = defaultdict(list)
    for name, entity in flow.history.entities.items():
        for source in entity.sources:
            children[source].append(name)

    def derived(name: str) -> Iterator[str]:
        yield from children[name]
        for event in flow.used_by.get(name, ()):
            yield from event.produces

    return derived


def _propagated_labels(flow: DataFlow, events: tuple[Event, ...]) -> Mapping[str, Label]:
    """Return the least labels that satisfy every event: each grows until nothing changes."""
    approvals = [event for event in events if event.kind == "approval"]
    endorsements = {event.id for event in events if _is_endorsement(event, approvals)}
    labels = {name: entity.label for name, entity in flow.history.entities.items()}
    for event in events:
        for name in (*event.consumes, *event.produces):
            labels.setdefault(name, UNKNOWN_LABEL)
    derived = _derived(flow)
    queue = deque(labels)
    queued = set(queue)
    while queue:
        name = queue.popleft()
        queued.discard(name)
        label = _grown_label(flow, labels, endorsements, name)
        if label != labels[name]:
            labels[name] = label
            new = [other for other in derived(name) if other not in queued]
            queue.extend(new)
            queued.update(new)
    return labels


def _grown_label(
    flow: DataFlow, labels: Mapping[str, Label], endorsements: set[str], name: str
) -> Label:
    """Return the label of one entity by the present labels of everything it was made from."""
    label = labels[name]
    makers = flow.made_by.get(name, ())
    for event in makers:
        seen = join_labels(labels[other] for other in event.consumes)
        label = label.join(Label(caps=seen.caps) if event.id in endorsements else seen)
    entity = flow.history.entities.get(name)
    if entity is not None and entity.sources:
        endorsed = any(event.id in endorsements for event in makers)
        seen = join_labels(labels.get(source, UNKNOWN_LABEL) for source in entity.sources)
        label = label.join(Label(caps=seen.caps) if endorsed else seen)
    return label


def _is_endorsement(event: Event, approvals: list[Event]) -> bool:
    approval = event.body.get("approval")
    return (
        event.kind == "endorsement"
        and isinstance(approval, str)
        and was_approved_before(approvals, approval, event)
    )
