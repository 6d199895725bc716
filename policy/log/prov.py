"""A history as PROV-JSON, the W3C's words for who used and made what. Pure."""

from collections.abc import Iterator

from contracts.entity import Entity
from contracts.json import Json
from policy.log.events import Event
from policy.log.history import History

PREFIX = "harness"

Record = dict[str, Json]


def prov_document(history: History) -> dict[str, dict[str, Json]]:
    """The document: events are activities, machines are agents, entities stay entities.

    PROV lets one activity generate an entity; a later event that gave the same again is said to
    have influenced it.
    """
    events = history.in_order()
    generated, influenced = _generations(events)
    return {
        "prefix": {PREFIX: "urn:harness:"},
        "entity": {_q(name): _entity(entity) for name, entity in history.entities.items()},
        "activity": {_q(event.id): _activity(event) for event in events},
        "agent": {
            _q(f"machine-{replica}"): {"prov:type": _name("prov:SoftwareAgent")}
            for replica in sorted(history.clock)
        },
        "used": _numbered(
            "used", (_pair(event, name) for event in events for name in event.consumes)
        ),
        "wasGeneratedBy": _numbered("generated", generated),
        "wasInfluencedBy": _numbered("influenced", influenced),
        "wasDerivedFrom": _numbered("derived", _derivations(history)),
        "wasInformedBy": _numbered("informed", _follows(events, history)),
        "wasAssociatedWith": _numbered("associated", map(_association, events)),
    }


def _entity(entity: Entity) -> Record:
    said: Record = {"harness:origin": entity.origin}
    if entity.label.caps:
        said["harness:caps"] = sorted(entity.label.caps)
    if entity.label.taint:
        said["harness:taint"] = sorted(entity.label.taint)
    return said


def _activity(event: Event) -> Record:
    at = event.as_json()["at"]
    return {
        "prov:startTime": at,
        "prov:endTime": at,
        "prov:type": _name(f"{PREFIX}:{event.kind}"),
        "harness:run": event.run_id,
    }


def _generations(events: tuple[Event, ...]) -> tuple[list[Record], list[Record]]:
    first: set[str] = set()
    generated: list[Record] = []
    influenced: list[Record] = []
    for event in events:
        for name in event.produces:
            if name in first:
                influenced.append({"prov:influencee": _q(name), "prov:influencer": _q(event.id)})
            else:
                generated.append(_pair(event, name))
            first.add(name)
    return generated, influenced


def _derivations(history: History) -> Iterator[Record]:
    for name, entity in history.entities.items():
        for source in entity.sources:
            if source in history.entities:
                yield {"prov:generatedEntity": _q(name), "prov:usedEntity": _q(source)}


def _follows(events: tuple[Event, ...], history: History) -> Iterator[Record]:
    for event in events:
        for head in event.heads:
            if head in history.events:
                yield {"prov:informed": _q(event.id), "prov:informant": _q(head)}


def _association(event: Event) -> Record:
    return {"prov:activity": _q(event.id), "prov:agent": _q(f"machine-{event.replica}")}


def _pair(event: Event, entity: str) -> Record:
    return {"prov:activity": _q(event.id), "prov:entity": _q(entity)}


def _numbered(word: str, records: Iterator[Record] | list[Record]) -> dict[str, Json]:
    return {f"_:{word}{number}": record for number, record in enumerate(records, 1)}


def _name(qualified: str) -> Record:
    return {"$": qualified, "type": "prov:QUALIFIED_NAME"}


def _q(name: str) -> str:
    return f"{PREFIX}:{name}"
