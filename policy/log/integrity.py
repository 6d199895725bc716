"""Checks events one after another: hashes, causes, clocks, entities.

Nothing in a line is trusted before its hash fits. A damaged line is reported, never raised.
"""

from typing import NamedTuple

from pydantic import BaseModel, ValidationError

from policy.log.events import Clock, joined_clock, line_digest


class IntegrityProblem(NamedTuple):
    """A problem, and its place: the id of an event or entity, or the name of a table."""

    where: str
    problem: str

    def __str__(self) -> str:
        return f"{self.where}: {self.problem}"


class EventLine(BaseModel, frozen=True, extra="forbid", strict=True):
    """The fields of an event's line."""

    kind: str
    run_id: str
    replica: str
    at: str
    body: dict[str, object]
    consumes: list[str]
    produces: list[str]
    heads: list[str]
    clock: dict[str, int]


_WRONG_CLOCK = "its clock does not follow from its causes: it ran backwards or was forged"


class CausalityCheck:
    """Checks events in any order; `entities` are the ids of the entities that exist."""

    def __init__(self) -> None:
        self.clocks: dict[str, Clock] = {}
        self.entities: set[str] = set()
        self.warnings: list[IntegrityProblem] = []
        self._problems: list[IntegrityProblem] = []
        self._followed: set[str] = set()
        self._postponed: dict[str, EventLine] = {}
        self._unknown_entities: dict[str, str] = {}
        self._counters: dict[tuple[str, int], str] = {}
        self._times: dict[str, str] = {}

    @property
    def heads(self) -> set[str]:
        """The events without a successor."""
        return self.clocks.keys() - self._followed

    def check_event(self, name: str, line: str) -> EventLine | None:
        """Check the event with this id; return its fields, or None if it is not an event."""
        if line_digest(line) != name:
            self._report(name, "its content does not match its id: it was edited")
        try:
            event = EventLine.model_validate_json(line)
        except ValidationError:
            self._report(name, "it is not a complete event: it was cut off or edited")
            return None
        if self.clocks.keys() >= set(event.heads):
            self._check_clock(name, event)
        else:
            self._postponed[name] = event
        self.clocks[name] = event.clock
        self._followed.update(event.heads)
        self._check_counter(name, event)
        self._check_time(name, event)
        for entity in (*event.consumes, *event.produces):
            if entity not in self.entities:
                self._unknown_entities.setdefault(entity, name)
        return event

    def problems(self) -> list[IntegrityProblem]:
        """Return all problems; called once, after the last event."""
        for name, event in self._postponed.items():
            missing = [head for head in event.heads if head not in self.clocks]
            if missing:
                self._report(name, f"it follows event {missing[0]}, which is missing")
            else:
                self._check_clock(name, event)
        for entity, name in self._unknown_entities.items():
            if entity not in self.entities:
                self._report(name, f"it names entity {entity}, which is missing")
        return self._problems

    def _report(self, where: str, problem: str) -> None:
        self._problems.append(IntegrityProblem(where, problem))

    def _check_clock(self, name: str, event: EventLine) -> None:
        expected = joined_clock(self.clocks[head] for head in event.heads)
        expected[event.replica] = expected.get(event.replica, 0) + 1
        if expected != event.clock:
            self._report(name, _WRONG_CLOCK)

    def _check_counter(self, name: str, event: EventLine) -> None:
        count = event.clock.get(event.replica, 0)
        other = self._counters.setdefault((event.replica, count), name)
        if other != name:
            self._report(
                name,
                f"it and {other} are both number {count} of {event.replica}: two machines have "
                "the same name",
            )

    def _check_time(self, name: str, event: EventLine) -> None:
        if event.at < self._times.get(event.replica, ""):
            warning = "the clock of the machine went back; the order is not affected"
            self.warnings.append(IntegrityProblem(name, warning))
        self._times[event.replica] = event.at
