"""A history: a set of events with their entities, which merges as a union."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from contracts.entity import Entity
from policy.log.events import Event, joined_clock


@dataclass(frozen=True, kw_only=True)
class History:
    """Events and the entities that they name, both by id."""

    events: Mapping[str, Event] = field(default_factory=lambda: MappingProxyType({}))
    entities: Mapping[str, Entity] = field(default_factory=lambda: MappingProxyType({}))

    def in_order(self) -> tuple[Event, ...]:
        """Return every event after its causes, in the same order on every replica."""
        return tuple(sorted(self.events.values(), key=lambda event: event.sort_key))

    @property
    def heads(self) -> frozenset[str]:
        """The events without a successor."""
        followed = {head for event in self.events.values() for head in event.heads}
        return frozenset(self.events.keys() - followed)

    @property
    def clock(self) -> dict[str, int]:
        """The joined clock of all events."""
        return joined_clock(event.clock for event in self.events.values())


def merge(one: History, other: History) -> History:
    """Return the union. It has no conflicts, because ids are digests of the content."""
    return History(
        events=MappingProxyType({**one.events, **other.events}),
        entities=MappingProxyType({**one.entities, **other.entities}),
    )
