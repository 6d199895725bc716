"""A whole event log as JSON lines: written on one machine, merged into the log of another."""

import json
from collections.abc import Iterable, Iterator
from typing import Annotated, TypeVar

from pydantic import AwareDatetime, BaseModel, Field, JsonValue, ValidationError

from contracts.entity import Entity, Label
from contracts.json import Json, canonical_json
from policy.errors import EventsInvalid
from policy.log.events import Event, Kind, entity_line
from policy.log.history import History
from policy.log.integrity import CausalityCheck

_T = TypeVar("_T", bound=BaseModel)

FORMAT = 1
MAX_COUNT = 2**31 - 1
MAX_LINE = 8 * 1024 * 1024
"""Characters of one line."""


def export_lines(history: History) -> Iterator[str]:
    """A first line that tells how it ends, then every entity and every event."""
    heads: Json = sorted(history.heads)
    yield canonical_json({"format": FORMAT, "heads": heads, "clock": dict(history.clock)})
    for name in sorted(history.entities):
        yield f'{{"entity":{entity_line(history.entities[name])}}}'
    for event in history.in_order():
        yield f'{{"event":{event.line}}}'


def read_export(lines: Iterable[str]) -> History:
    """The history in a file that `export` wrote; every id, cause and clock in it is checked.

    Raises:
        EventsInvalid: it is no export, was edited, or was cut short.
    """
    numbered = enumerate(lines, 1)
    try:
        first = _read(*next(numbered), _First)
    except StopIteration:
        raise EventsInvalid("the file is empty: it is no exported event log") from None
    if first.format != FORMAT:
        raise _invalid(1, f"it has format {first.format}; this Harness reads {FORMAT}")
    events: dict[str, Event] = {}
    entities: dict[str, Entity] = {}
    for number, line in numbered:
        match _made(number, _read(number, line, _Line)):
            case Entity() as entity:
                entities[entity.id] = entity
            case Event() as event:
                events[event.id] = event
    history = History(events=events, entities=entities)
    _check_whole(first, history)
    return history


class _First(BaseModel, frozen=True, extra="forbid"):
    format: int
    heads: list[str]
    clock: dict[str, int]


class _Entity(BaseModel, frozen=True, extra="forbid"):
    content: JsonValue
    caps: list[str]
    taint: list[str]
    origin: str
    sources: list[str]
    part_of: str | None

    def entity(self) -> Entity:
        label = Label(caps=frozenset(self.caps), taint=frozenset(self.taint))
        return Entity(
            content=self.content,
            label=label,
            origin=self.origin,
            sources=tuple(self.sources),
            part_of=self.part_of,
        )


class _Event(BaseModel, frozen=True, extra="forbid"):
    kind: Kind
    run_id: str = Field(max_length=64)
    replica: str = Field(min_length=1, max_length=64)
    at: AwareDatetime
    body: dict[str, JsonValue]
    consumes: list[str]
    produces: list[str]
    heads: list[str]
    clock: dict[str, Annotated[int, Field(ge=1, le=MAX_COUNT)]]

    def event(self) -> Event:
        return Event(
            kind=self.kind,
            run_id=self.run_id,
            replica=self.replica,
            at=self.at,
            body=self.body,
            consumes=tuple(self.consumes),
            produces=tuple(self.produces),
            heads=tuple(self.heads),
            clock=self.clock,
        )


class _Line(BaseModel, frozen=True, extra="forbid"):
    entity: _Entity | None = None
    event: _Event | None = None


def _read(number: int, line: str, model: type[_T]) -> _T:
    if len(line) > MAX_LINE:
        raise _invalid(number, f"it is longer than {MAX_LINE} characters")
    try:
        return model.model_validate(json.loads(line, parse_constant=_no_number))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "it"
        raise _invalid(number, f"{where}: {first['msg']}") from error
    except (ValueError, RecursionError) as error:
        raise _invalid(number, f"no JSON: {error}") from error


def _made(number: int, line: _Line) -> Entity | Event:
    try:
        match line:
            case _Line(entity=_Entity() as entity, event=None):
                return entity.entity()
            case _Line(entity=None, event=_Event() as event):
                return event.event()
    except (ValueError, OverflowError, RecursionError) as error:
        raise _invalid(number, str(error)) from error
    raise _invalid(number, "it holds neither one entity nor one event")


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")


def _invalid(number: int, why: str) -> EventsInvalid:
    return EventsInvalid(
        f"line {number} is no line of an exported event log ({why}); nothing was merged. Use a "
        "file that `harness events export` wrote, whole"
    )


def _check_whole(first: _First, history: History) -> None:
    """Refuse what does not hang together. Ids are made of what was read, so an edit of an event
    shows in those that follow it, or in the heads that the first line names."""
    causes = CausalityCheck()
    causes.entities.update(history.entities)
    for event in history.in_order():
        causes.check_event(event.id, event.line)
    for finding in causes.problems():
        raise EventsInvalid(f"the exported log is damaged: {finding}; nothing was merged")
    if set(first.heads) != history.heads or first.clock != history.clock:
        raise EventsInvalid(
            "the exported log was cut short: its first line names newer events than it holds; "
            "nothing was merged"
        )
