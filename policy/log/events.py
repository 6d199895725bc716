"""What happened, as a value: named by its content, tied to its causes. Pure."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from types import MappingProxyType
from typing import Literal

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
    "report",
]
"""`source` is a repository, a file or an answer that came in from outside."""

Clock = Mapping[str, int]
"""How many events of each replica are known; one that is not there counts 0."""


@dataclass(frozen=True, kw_only=True)
class Draft:
    """Something that happened, before a log gives it its place.

    `consumes` names the entities that were in view, `produces` are those that came of it.
    """

    kind: Kind
    run_id: str
    body: Mapping[str, Json] = field(default_factory=lambda: MappingProxyType({}))
    consumes: tuple[str, ...] = ()
    produces: tuple[Entity, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Event:
    """Something that happened. Its id is the SHA-256 of its `line`, the canonical JSON of it.

    `heads` are the events that it follows at once, `clock` counts all that it follows, itself
    included. `at` is what the machine's clock said: for people, never for the order.

    Raises:
        ValueError: `at` is naive.
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
            raise ValueError(f"an event's moment needs a time zone, got {self.at!r}")
        object.__setattr__(self, "body", deep_freeze(self.body))
        object.__setattr__(self, "clock", MappingProxyType(dict(self.clock)))
        object.__setattr__(self, "line", canonical_json(self.as_json()))
        object.__setattr__(self, "id", line_digest(self.line))

    def __hash__(self) -> int:
        return hash(self.id)

    def as_json(self) -> dict[str, Json]:
        """All of the event but its id, which is the digest of this."""
        return {
            "kind": self.kind,
            "run_id": self.run_id,
            "replica": self.replica,
            "at": self.at.astimezone(UTC).isoformat(timespec="microseconds"),
            "body": self.body,
            "consumes": self.consumes,
            "produces": self.produces,
            "heads": self.heads,
            "clock": dict(self.clock),
        }

    @property
    def counter(self) -> int:
        """Which event of its replica this is, counted from 1."""
        return self.clock.get(self.replica, 0)

    @property
    def sort_key(self) -> tuple[int, str]:
        """Sorted by this, every cause comes before its effects, in every replica alike."""
        return (sum(self.clock.values()), self.id)


def place_drafts(
    drafts: Iterable[Draft],
    heads: tuple[str, ...],
    clock: Clock,
    replica: str,
    now: Callable[[], datetime],
) -> tuple[Event, ...]:
    """Give drafts their place in the history that ends with these heads, one after the other."""
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
    """The id of what has this canonical line."""
    return sha256(line.encode("utf-8", "surrogatepass")).hexdigest()


def joined_clock(clocks: Iterable[Clock]) -> dict[str, int]:
    """The clock that knows all that these know: the greatest count of each replica."""
    known: dict[str, int] = {}
    for clock in clocks:
        for replica, count in clock.items():
            known[replica] = max(count, known.get(replica, 0))
    return known


def event_from_line(line: str) -> Event:
    """The event that `line` was made of. For lines of our own; a file's are checked first."""
    raw = json.loads(line)
    return Event(
        kind=raw["kind"],
        run_id=raw["run_id"],
        replica=raw["replica"],
        at=datetime.fromisoformat(raw["at"]),
        body=raw["body"],
        consumes=tuple(raw["consumes"]),
        produces=tuple(raw["produces"]),
        heads=tuple(raw["heads"]),
        clock=raw["clock"],
    )


def entity_line(entity: Entity) -> str:
    """The canonical JSON of an entity; the entity's id is its SHA-256."""
    return canonical_json(entity.as_json())


def entity_from_line(line: str) -> Entity:
    """The entity that `line` was made of. For lines of our own; a file's are checked first."""
    raw = json.loads(line)
    return Entity(
        content=raw["content"],
        label=Label(caps=frozenset(raw["caps"]), taint=frozenset(raw["taint"])),
        origin=raw["origin"],
        sources=tuple(raw["sources"]),
        part_of=raw["part_of"],
    )
