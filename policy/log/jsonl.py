"""Export and import of a whole event log as JSON lines, for merging logs of two machines."""

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
    """Yield a first line with the heads, then every entity and every event."""
    heads: Json = sorted(history.heads)
    yield canonical_json({"format": FORMAT, "heads": heads, "clock": dict(history.clock)})
    for name in sorted(history.entities):
        yield f'{{"entity":{entity_line(history.entities[name])}}}'
    for event in history.in_order():
        yield f'{{"event":{event.line}}}'


def read_export(lines: Iterable[str]) -> History:
    """Read an exported history, and check every id, cause and clock in it.

    Raises:
        EventsInvalid: it is not an export, was edited, or was truncated.
    """
    numbered = enumerate(lines, 1)
    try:
        first = _validated(*next(numbered), _FirstLine)
    except StopIteration:
        raise EventsInvalid("the file is empty, so it is not an exported event log") from None
    if first.format != FORMAT:
        raise _invalid(1, f"it has format {first.format}; this version reads format {FORMAT}")
    events: dict[str, Event] = {}
    entities: dict[str, Entity] = {}
    for number, line in numbered:
        match _entity_or_event(number, _validated(number, line, _Line)):
            case Entity() as entity:
                entities[entity.id] = entity
            case Event() as event:
                events[event.id] = event
    history = History(events=events, entities=entities)
    _check_consistent(first, history)
    return history


class _FirstLine(BaseModel, frozen=True, extra="forbid"):
    format: int
    heads: list[str]
    clock: dict[str, int]


class _Entity(BaseModel, frozen=True, extra="forbid"):
    content: JsonValue
    caps: frozenset[str]
    taint: frozenset[str]
    origin: str
    sources: tuple[str, ...]
    part_of: str | None

    def entity(self) -> Entity:
        return Entity(
            content=self.content,
            label=Label(caps=self.caps, taint=self.taint),
            origin=self.origin,
            sources=self.sources,
            part_of=self.part_of,
        )


class _Event(BaseModel, frozen=True, extra="forbid"):
    kind: Kind
    run_id: str = Field(max_length=64)
    replica: str = Field(min_length=1, max_length=64)
    at: AwareDatetime
    body: dict[str, JsonValue]
    consumes: tuple[str, ...]
    produces: tuple[str, ...]
    heads: tuple[str, ...]
    clock: dict[str, Annotated[int, Field(ge=1, le=MAX_COUNT)]]

    def event(self) -> Event:
        return Event(**{name: getattr(self, name) for name in type(self).model_fields})


class _Line(BaseModel, frozen=True, extra="forbid"):
    entity: _Entity | None = None
    event: _Event | None = None


def _validated(number: int, line: str, model: type[_T]) -> _T:
    if len(line) > MAX_LINE:
        raise _invalid(number, f"it is longer than {MAX_LINE} characters")
    try:
        return model.model_validate(json.loads(line, parse_constant=_reject_constant))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "it"
        raise _invalid(number, f"{where}: {first['msg']}") from error
    except (ValueError, RecursionError) as error:
        raise _invalid(number, f"it is not JSON: {error}") from error


def _entity_or_event(number: int, line: _Line) -> Entity | Event:
    try:
        match line:
            case _Line(entity=_Entity() as entity, event=None):
                return entity.entity()
            case _Line(entity=None, event=_Event() as event):
                return event.event()
    except (ValueError, OverflowError, RecursionError) as error:
        raise _invalid(number, str(error)) from error
    raise _invalid(number, "it holds neither one entity nor one event")


def _reject_constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


def _invalid(number: int, reason: str) -> EventsInvalid:
    return EventsInvalid(
        f"line {number} is not a line of an exported event log ({reason}); nothing was merged. "
        "Use a complete file that `harness events export` wrote"
    )


def _check_consistent(first: _FirstLine, history: History) -> None:
    """Refuse a history with missing or edited events.

    Ids are computed from the content that was read, so an edited event is missing among the
    causes of the events after it, or among the heads in the first line.
    """
    check = CausalityCheck()
    check.entities.update(history.entities)
    for event in history.in_order():
        check.check_event(event.id, event.line)
    problems = check.problems()
    if problems:
        raise EventsInvalid(f"the exported log is damaged: {problems[0]}; nothing was merged")
    if set(first.heads) != history.heads or first.clock != history.clock:
        raise EventsInvalid(
            "the exported log was truncated: its first line names newer events than it holds; "
            "nothing was merged"
        )
