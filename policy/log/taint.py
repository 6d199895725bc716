"""The data-flow graph of what happened, and the label that each entity has by it. Pure."""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from contracts.entity import Label, join_labels
from policy.log.approval_state import was_approved_before
from policy.log.events import Event
from policy.log.history import History

UNKNOWN_LABEL = Label(taint=frozenset({"unknown"}))
"""The label of an entity that an event names and nobody has."""


class Hop(NamedTuple):
    """One step of a way: an entity, and the event that it came of.

    None: an origin, or a step that only the entity itself tells of, by its sources.
    """

    event: Event | None
    entity: str


@dataclass(frozen=True, kw_only=True)
class DataFlow:
    """Who used and made what, and the labels that follow from it.

    An entity's label joins its own tags, the labels of all that its makers had in view and those
    of its sources. More events never take a tag away from it, except that an endorsed entity,
    which is a new one, leaves the taint of what was endorsed behind.
    """

    history: History
    labels: Mapping[str, Label]
    made_by: Mapping[str, tuple[Event, ...]]
    used_by: Mapping[str, tuple[Event, ...]]

    def label(self, entity: str) -> Label:
        """The label by the flow; that of an entity nobody has is `UNKNOWN`."""
        return self.labels.get(entity, UNKNOWN_LABEL)


def data_flow(history: History) -> DataFlow:
    """Follow every event of the history."""
    events = history.in_order()
    made_by, used_by = _by_entity(events, "produces"), _by_entity(events, "consumes")
    return DataFlow(
        history=history,
        labels=_Labels(history, events, made_by, used_by).all(),
        made_by=made_by,
        used_by=used_by,
    )


def taint_path(flow: DataFlow, entity: str, tag: str) -> tuple[Hop, ...]:
    """The shortest way on which the tag came to the entity, the origin first; empty if none."""
    if tag not in _tags(flow.label(entity)):
        return ()
    before: dict[str, Hop | None] = {entity: None}
    waiting = deque([entity])
    while waiting:
        here = waiting.popleft()
        tagged = [
            (e, n) for e, n in _inputs(flow, here) if n != here and tag in _tags(flow.label(n))
        ]
        if not tagged:
            return _walk(here, before)
        for event, name in tagged:
            if name not in before:
                before[name] = Hop(event, here)
                waiting.append(name)
    return _walk(entity, before)


def entities_derived_from(flow: DataFlow, entity: str) -> frozenset[str]:
    """Every entity that was made from this one, over any number of steps."""
    children: dict[str, list[str]] = defaultdict(list)
    for name, made in flow.history.entities.items():
        for source in made.sources:
            children[source].append(name)

    def outputs(here: str) -> Iterable[str]:
        yield from children[here]
        for event in flow.used_by.get(here, ()):
            yield from event.produces

    return _reach(entity, outputs)


def entities_losing_tags(before: DataFlow, after: DataFlow) -> tuple[str, ...]:
    """Entities that were there before and have lost a tag since.

    That nobody had what they were made of is no tag to keep, once somebody brings it back.
    """
    return tuple(
        name for name, label in before.labels.items() if not after.label(name).covers(_known(label))
    )


def _known(label: Label) -> Label:
    return Label(caps=label.caps, taint=label.taint - UNKNOWN_LABEL.taint)


def _by_entity(events: Iterable[Event], role: str) -> Mapping[str, tuple[Event, ...]]:
    found: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        for name in event.produces if role == "produces" else event.consumes:
            found[name].append(event)
    return {name: tuple(those) for name, those in found.items()}


def _inputs(flow: DataFlow, entity: str) -> Iterator[tuple[Event | None, str]]:
    told = set()
    for event in flow.made_by.get(entity, ()):
        for name in event.consumes:
            told.add(name)
            yield event, name
    made = flow.history.entities.get(entity)
    for source in made.sources if made is not None else ():
        if source not in told:
            yield None, source


def _walk(start: str, onward: Mapping[str, Hop | None]) -> tuple[Hop, ...]:
    way = [Hop(None, start)]
    while (hop := onward.get(way[-1].entity)) is not None:
        way.append(hop)
    return tuple(way)


def _tags(label: Label) -> frozenset[str]:
    return label.caps | label.taint


def _reach(start: str, onward: Callable[[str], Iterable[str]]) -> frozenset[str]:
    seen, waiting = {start}, [start]
    while waiting:
        new = [name for name in onward(waiting.pop()) if name not in seen]
        seen.update(new)
        waiting.extend(new)
    return frozenset(seen - {start})


class _Labels:
    """Labels that grow until nothing changes any more."""

    def __init__(
        self,
        history: History,
        events: tuple[Event, ...],
        made_by: Mapping[str, tuple[Event, ...]],
        used_by: Mapping[str, tuple[Event, ...]],
    ) -> None:
        self._history = history
        self._made_by = made_by
        self._used_by = used_by
        approvals = [event for event in events if event.kind == "approval"]
        self._endorsements = {e.id for e in events if _endorses(e, approvals)}
        self._made_of: dict[str, list[str]] = defaultdict(list)
        for name, entity in history.entities.items():
            for source in entity.sources:
                self._made_of[source].append(name)
        self._labels = {name: entity.label for name, entity in history.entities.items()}
        for event in events:
            for name in (*event.consumes, *event.produces):
                self._labels.setdefault(name, UNKNOWN_LABEL)

    def all(self) -> Mapping[str, Label]:
        waiting = deque(self._labels)
        queued = set(waiting)
        while waiting:
            name = waiting.popleft()
            queued.discard(name)
            label = self._label(name)
            if label != self._labels[name]:
                self._labels[name] = label
                new = [other for other in self._next(name) if other not in queued]
                waiting.extend(new)
                queued.update(new)
        return self._labels

    def _label(self, name: str) -> Label:
        """The label by what is known of its makers so far."""
        makers = self._made_by.get(name, ())
        label = self._labels[name]
        for event in makers:
            view = join_labels(self._labels[other] for other in event.consumes)
            label = label.join(self._passed(view, event.id in self._endorsements))
        entity = self._history.entities.get(name)
        sources = entity.sources if entity is not None else ()
        if sources:
            endorsed = any(event.id in self._endorsements for event in makers)
            view = join_labels(self._labels.get(source, UNKNOWN_LABEL) for source in sources)
            label = label.join(self._passed(view, endorsed))
        return label

    def _passed(self, view: Label, endorsed: bool) -> Label:
        return Label(caps=view.caps) if endorsed else view

    def _next(self, name: str) -> Iterable[str]:
        yield from self._made_of[name]
        for event in self._used_by.get(name, ()):
            yield from event.produces


def _endorses(event: Event, approvals: list[Event]) -> bool:
    approval = event.body.get("approval")
    return (
        event.kind == "endorsement"
        and isinstance(approval, str)
        and was_approved_before(approvals, approval, event)
    )
