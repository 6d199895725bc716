"""Exports of a history: JSON lines, which another machine can merge, and PROV-JSON."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from contracts.entity import Entity
from contracts.json import Json, canonical_json
from policy.errors import EventsInvalid
from policy.log.events import EntityLine, Event, EventLine, History, entity_line
from policy.log.verify import CausalityCheck

_T = TypeVar("_T", bound=BaseModel)

FORMAT = 1
MAX_LINE = 8 * 1024 * 1024
"""Characters of one line."""

_PREFIX = "harness"


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
        fields = _validated(number, line, _Line)
        try:
            if fields.entity is not None and fields.event is None:
                entity = fields.entity.entity()
                entities[entity.id] = entity
            elif fields.event is not None and fields.entity is None:
                event = fields.event.event()
                events[event.id] = event
            else:
                raise _invalid(number, "it holds neither one entity nor one event")
        except (ValueError, OverflowError) as error:  # NaN, or a time before year 1 in UTC
            raise _invalid(number, str(error)) from error
    history = History(events=events, entities=entities)
    check = CausalityCheck()
    check.entities.update(entities)
    for event in history.in_order():
        check.check_event(event.id, event.line)
    if problems := check.problems():
        raise EventsInvalid(f"the exported log is damaged: {problems[0]}; nothing was merged")
    # Ids are computed from the content read here, so an edited event is missing among the causes
    # of the events after it, or among the heads in the first line.
    if set(first.heads) != history.heads or first.clock != history.clock:
        raise EventsInvalid(
            "the exported log was truncated: its first line names newer events than it holds; "
            "nothing was merged"
        )
    return history


def prov_document(history: History) -> dict[str, dict[str, Json]]:
    """Return the history as PROV-JSON, the W3C format: events are activities, machines are agents.

    In PROV, exactly one activity generates an entity. A later event that produced the same entity
    again is recorded as an influence.
    """
    events, entities = history.in_order(), history.entities
    makers: dict[str, list[str]] = {}
    for event in events:
        for name in event.produces:
            makers.setdefault(name, []).append(event.id)
    generated = [(made[0], name) for name, made in makers.items()]
    influenced = [(name, event) for name, made in makers.items() for event in made[1:]]
    used = [(event.id, name) for event in events for name in event.consumes]
    derived = [(one.id, source) for one in entities.values() for source in one.sources]
    informed = [(event.id, head) for event in events for head in event.heads]
    associated = [(event.id, f"machine-{event.replica}") for event in events]
    return {
        "prefix": {_PREFIX: "urn:harness:"},
        "entity": {_qualified(name): _prov_entity(one) for name, one in entities.items()},
        "activity": {_qualified(event.id): _prov_activity(event) for event in events},
        "agent": {
            _qualified(f"machine-{replica}"): {"prov:type": _type("prov:SoftwareAgent")}
            for replica in sorted(history.clock)
        },
        "used": _relations("used", "activity", "entity", used),
        "wasGeneratedBy": _relations("generated", "activity", "entity", generated),
        "wasInfluencedBy": _relations("influenced", "influencee", "influencer", influenced),
        "wasDerivedFrom": _relations(
            "derived", "generatedEntity", "usedEntity", [p for p in derived if p[1] in entities]
        ),
        "wasInformedBy": _relations(
            "informed", "informed", "informant", [p for p in informed if p[1] in history.events]
        ),
        "wasAssociatedWith": _relations("associated", "activity", "agent", associated),
    }


class _FirstLine(BaseModel, frozen=True, extra="forbid"):
    format: int
    heads: list[str]
    clock: dict[str, int]


class _Line(BaseModel, frozen=True, extra="forbid"):
    entity: EntityLine | None = None
    event: EventLine | None = None


def _validated(number: int, line: str, model: type[_T]) -> _T:
    if len(line) > MAX_LINE:
        raise _invalid(number, f"it is longer than {MAX_LINE} characters")
    try:
        return model.model_validate_json(line)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "it"
        raise _invalid(number, f"{where}: {first['msg']}") from error


def _invalid(number: int, reason: str) -> EventsInvalid:
    return EventsInvalid(
        f"line {number} is not a line of an exported event log ({reason}); nothing was merged. "
        "Use a complete file that `harness events export` wrote"
    )


def _prov_entity(entity: Entity) -> dict[str, Json]:
    tags = {"caps": sorted(entity.label.caps), "taint": sorted(entity.label.taint)}
    found = {f"{_PREFIX}:{name}": values for name, values in tags.items() if values}
    return {f"{_PREFIX}:origin": entity.origin, **found}


def _prov_activity(event: Event) -> dict[str, Json]:
    at = event.as_json()["at"]
    return {
        "prov:startTime": at,
        "prov:endTime": at,
        "prov:type": _type(f"{_PREFIX}:{event.kind}"),
        f"{_PREFIX}:run": event.run_id,
    }


def _relations(
    word: str, first: str, second: str, pairs: Sequence[tuple[str, str]]
) -> dict[str, Json]:
    return {
        f"_:{word}{number}": {f"prov:{first}": _qualified(a), f"prov:{second}": _qualified(b)}
        for number, (a, b) in enumerate(pairs, 1)
    }


def _type(qualified: str) -> Json:
    return {"$": qualified, "type": "prov:QUALIFIED_NAME"}


def _qualified(name: str) -> str:
    return f"{_PREFIX}:{name}"
