"""Checks events one by one, as they are read: each is what its id says, and follows its causes.

Nothing of a line is believed before its hash fits, and nothing is raised for one that does not.
"""

import json
from typing import NamedTuple, TypedDict, TypeGuard

from policy.log.events import Clock, joined_clock, line_digest

_DECODER = json.JSONDecoder()


class IntegrityProblem(NamedTuple):
    """Something that is wrong, and where: an event, an entity, a table."""

    where: str
    problem: str

    def __str__(self) -> str:
        return f"{self.where}: {self.problem}"


class RawEvent(TypedDict):
    """An event as its line says it."""

    kind: str
    run_id: str
    replica: str
    at: str
    body: dict[str, object]
    consumes: list[str]
    produces: list[str]
    heads: list[str]
    clock: dict[str, int]


class _Waiting(NamedTuple):
    id: str
    heads: tuple[str, ...]
    replica: str
    clock: Clock


class CausalityCheck:
    """What is known of the events so far. `entities` holds the ids of those that are there."""

    def __init__(self) -> None:
        self.clocks: dict[str, Clock] = {}
        self.entities: set[str] = set()
        self.named: dict[str, int] = {}
        """For each event that names entities, a hash of each role and id, in order."""
        self.warnings: list[IntegrityProblem] = []
        self._findings: list[IntegrityProblem] = []
        self._followed: set[str] = set()
        self._waiting: list[_Waiting] = []
        self._missing: dict[str, str] = {}
        self._counts: dict[tuple[str, int], str] = {}
        self._at: dict[str, str] = {}

    @property
    def heads(self) -> set[str]:
        """The events that no other follows."""
        return self.clocks.keys() - self._followed

    def check_event(self, name: str, line: str) -> RawEvent | None:
        """Look at one event; gives what it says, or None when it is no event at all."""
        if line_digest(line) != name:
            self._findings.append(
                IntegrityProblem(name, "it is not what its id says: it was edited")
            )
        raw = _parsed(line)
        if raw is None:
            self._findings.append(
                IntegrityProblem(name, "it is not whole: it was cut off or edited")
            )
            return None
        clock, heads, replica = raw["clock"], tuple(raw["heads"]), raw["replica"]
        self._follow(_Waiting(name, heads, replica, clock))
        self.clocks[name] = clock
        self._followed.update(heads)
        self._count(name, replica, clock.get(replica, 0))
        self._tell_time(name, replica, raw["at"])
        self._name(name, raw["consumes"], raw["produces"])
        return raw

    def problems(self) -> list[IntegrityProblem]:
        """All that is wrong; asked once, after the last event."""
        for event in self._waiting:
            gone = [head for head in event.heads if head not in self.clocks]
            if gone:
                self._findings.append(
                    IntegrityProblem(event.id, f"it follows {gone[0]}, which is missing")
                )
            elif not self._ticks(event):
                self._findings.append(IntegrityProblem(event.id, _BACKWARDS))
        for entity, event_id in self._missing.items():
            if entity not in self.entities:
                self._findings.append(
                    IntegrityProblem(event_id, f"it names {entity}, which is missing")
                )
        return self._findings

    def _follow(self, event: _Waiting) -> None:
        if self.clocks.keys() >= set(event.heads):
            if not self._ticks(event):
                self._findings.append(IntegrityProblem(event.id, _BACKWARDS))
        else:
            self._waiting.append(event)

    def _ticks(self, event: _Waiting) -> bool:
        clocks = [self.clocks[head] for head in event.heads]
        before = dict(clocks[0]) if len(clocks) == 1 else joined_clock(clocks)
        before[event.replica] = before.get(event.replica, 0) + 1
        return before == event.clock

    def _count(self, name: str, replica: str, count: int) -> None:
        other = self._counts.setdefault((replica, count), name)
        if other != name:
            why = f"{replica} counts {count} for this and for {other}: two machines share its name"
            self._findings.append(IntegrityProblem(name, why))

    def _tell_time(self, name: str, replica: str, at: str) -> None:
        if at < self._at.get(replica, ""):
            self.warnings.append(
                IntegrityProblem(name, "the machine's clock had gone back; the order holds")
            )
        self._at[replica] = at

    def _name(self, name: str, consumes: list[str], produces: list[str]) -> None:
        if not self.entities.issuperset(both := consumes + produces):
            for entity in both:
                self._missing.setdefault(entity, name)
        if both:
            said = [f"consumes{entity}" for entity in consumes]
            said += [f"produces{entity}" for entity in produces]
            self.named[name] = hash(tuple(said))


_FIELDS = frozenset(RawEvent.__annotations__)
_STR, _INT = {str}, frozenset({int})
_BACKWARDS = "its clock does not follow from its causes: it ran backwards or was forged"


def _parsed(line: str) -> RawEvent | None:
    try:
        raw, end = _DECODER.raw_decode(line)
    except (ValueError, RecursionError):
        return None
    return raw if end == len(line) and _is_event(raw) else None


def _is_event(raw: object) -> TypeGuard[RawEvent]:
    if not isinstance(raw, dict) or raw.keys() != _FIELDS or not isinstance(raw["clock"], dict):
        return False
    consumes, produces, heads = raw["consumes"], raw["produces"], raw["heads"]
    return (
        type(consumes) is type(produces) is type(heads) is list
        and isinstance(raw["body"], dict)
        and {
            type(raw["kind"]), type(raw["run_id"]), type(raw["replica"]), type(raw["at"]),
            *map(type, consumes), *map(type, produces), *map(type, heads),
        } == _STR
        and _INT.issuperset(map(type, raw["clock"].values()))
    )  # fmt: skip
