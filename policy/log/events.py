"""Events: immutable records, identified by their content and linked to their causes."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from types import MappingProxyType
from typing import Literal

from pydantic import AwareDatetime, BaseModel, Field, JsonValue

from contracts.entity import Entity, Label
from contracts.json import Json, canonical_json, deep_freeze

Kind = Literal[
    "prompt",
    "source",
    "memory",
    "plan",
    "node",
    "step",
    "model_call",
    "tool_call",
    "decision",
    "approval",
    "endorsement",
    "snapshot",
    "egress",
    "relation",
    "output",
    "report",
]
"""`source` is a repository, a file or a reply that came in from outside. `output` is what an agent
proposed to do outside: done, or refused."""

Clock = Mapping[str, int]
"""Vector clock: the number of known events of each replica; a missing replica counts 0."""


@dataclass(frozen=True, kw_only=True)
class Draft:
    """An event before the log gives it a place in the order.

    `consumes` are ids of the entities that were in view, `produces` are the resulting entities.
    """

    kind: Kind
    run_id: str
    body: Mapping[str, Json] = field(default_factory=lambda: MappingProxyType({}))
    consumes: tuple[str, ...] = ()
    produces: tuple[Entity, ...] = ()


Append = Callable[[Draft], object]
"""Appends one event to a log."""


@dataclass(frozen=True, kw_only=True)
class Event:
    """An event of the log. Its id is the SHA-256 of `line`, its canonical JSON.

    `heads` are its direct causes. `clock` counts all events before it, and the event itself.
    `at` is the time of the machine, which is shown to people and never decides the order.

    Raises:
        ValueError: `at` has no time zone.
    """

    kind: Kind
    run_id: str
    replica: str
    at: datetime
    body: Mapping[str, Json]
    consumes: tuple[str, ...] = ()
    produces: tuple[str, ...] = ()
    heads: tuple[str, ...] = ()
    clock: Clock
    line: str = field(init=False, repr=False, compare=False)
    id: str = field(init=False)

    def __post_init__(self) -> None:
        if self.at.tzinfo is None:
            raise ValueError(f"the time of an event needs a time zone, got {self.at!r}")
        object.__setattr__(self, "body", deep_freeze(self.body))
        object.__setattr__(self, "clock", MappingProxyType(dict(self.clock)))
        object.__setattr__(self, "line", canonical_json(self.as_json()))
        object.__setattr__(self, "id", line_digest(self.line))

    def __hash__(self) -> int:
        return hash(self.id)

    def as_json(self) -> dict[str, Json]:
        """Return everything but the id, which is the digest of this."""
        return {
            "kind": self.kind,
            "run_id": self.run_id,
            "replica": self.replica,
            # Always UTC with microseconds: another text of the same moment would change the id.
            "at": self.at.astimezone(UTC).isoformat(timespec="microseconds"),
            "body": self.body,
            "consumes": self.consumes,
            "produces": self.produces,
            "heads": self.heads,
            "clock": dict(self.clock),
        }

    @property
    def counter(self) -> int:
        """The number of this event among those of its replica, from 1."""
        return self.clock.get(self.replica, 0)

    @property
    def sort_key(self) -> tuple[int, str]:
        """Sorting by this puts causes before effects, in the same order on every replica."""
        return (sum(self.clock.values()), self.id)


def place_drafts(
    drafts: Iterable[Draft],
    heads: tuple[str, ...],
    clock: Clock,
    replica: str,
    now: Callable[[], datetime],
) -> tuple[Event, ...]:
    """Return the drafts as events that follow `heads`, each one after the one before."""
    placed: list[Event] = []
    for draft in drafts:
        clock = {**clock, replica: clock.get(replica, 0) + 1}
        event = Event(
            kind=draft.kind,
            run_id=draft.run_id,
            replica=replica,
            at=now(),
            body=draft.body,
            consumes=draft.consumes,
            produces=tuple(entity.id for entity in draft.produces),
            heads=heads,
            clock=clock,
        )
        placed.append(event)
        heads = (event.id,)
    return tuple(placed)


def line_digest(line: str) -> str:
    """Return the id of the event or entity with this canonical line."""
    # An edited line may hold lone surrogates; `verify` reports it and must not raise.
    return sha256(line.encode("utf-8", "surrogatepass")).hexdigest()


def joined_clock(clocks: Iterable[Clock]) -> dict[str, int]:
    """Return the greatest count of each replica."""
    counts: dict[str, int] = {}
    for clock in clocks:
        for replica, count in clock.items():
            counts[replica] = max(count, counts.get(replica, 0))
    return counts


def entity_line(entity: Entity) -> str:
    """Return the canonical JSON of an entity; the entity's id is its SHA-256."""
    return canonical_json(entity.as_json())


class EventLine(BaseModel, frozen=True, extra="forbid", strict=True):
    """The fields of an event's line."""

    kind: Kind
    run_id: str = Field(max_length=64)
    replica: str = Field(min_length=1, max_length=64)
    at: AwareDatetime
    body: dict[str, JsonValue]
    consumes: tuple[str, ...]
    produces: tuple[str, ...]
    heads: tuple[str, ...]
    clock: dict[str, int]

    def event(self) -> Event:
        """Return the event."""
        return Event(**{name: getattr(self, name) for name in type(self).model_fields})


class EntityLine(BaseModel, frozen=True, extra="forbid", strict=True):
    """The fields of an entity's line."""

    content: JsonValue
    caps: frozenset[str]
    taint: frozenset[str]
    origin: str
    sources: tuple[str, ...]
    part_of: str | None

    def entity(self) -> Entity:
        """Return the entity."""
        return Entity(
            content=self.content,
            label=Label(caps=self.caps, taint=self.taint),
            origin=self.origin,
            sources=self.sources,
            part_of=self.part_of,
        )


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
