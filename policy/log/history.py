"""Two logs as one: a union of sets, so that neither order nor repetition matters. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from contracts.entity import Entity
from policy.log.events import Event, joined_clock


@dataclass(frozen=True, kw_only=True)
class History:
    """Events and the entities that they name, by their ids. It has no order but causality's."""

    events: Mapping[str, Event] = field(default_factory=lambda: MappingProxyType({}))
    entities: Mapping[str, Entity] = field(default_factory=lambda: MappingProxyType({}))

    def in_order(self) -> tuple[Event, ...]:
        """Every event after its causes, in an order that depends on nothing but the events."""
        return tuple(sorted(self.events.values(), key=lambda event: event.sort_key))

    @property
    def heads(self) -> frozenset[str]:
        """The events that no other follows."""
        followed = {head for event in self.events.values() for head in event.heads}
        return frozenset(self.events.keys() - followed)

    @property
    def clock(self) -> dict[str, int]:
        """All that is known here, as a clock."""
        return joined_clock(event.clock for event in self.events.values())


def merge(one: History, other: History) -> History:
    """All that either knows. What has an id is the same everywhere, so nothing can conflict."""
    return History(
        events=MappingProxyType({**one.events, **other.events}),
        entities=MappingProxyType({**one.entities, **other.entities}),
    )
