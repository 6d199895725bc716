"""A history as PROV-JSON, the W3C format for the provenance of data."""

from collections.abc import Iterator

from contracts.entity import Entity
from contracts.json import Json
from policy.log.events import Event
from policy.log.history import History

PREFIX = "harness"

Record = dict[str, Json]


def prov_document(history: History) -> dict[str, dict[str, Json]]:
    """Return the document: events are activities, machines are agents.

    In PROV, exactly one activity generates an entity. A later event that produced the same entity
    again is recorded as an influence.
    """
    events = history.in_order()
    generated, influenced = _generations(events)
    return {
        "prefix": {PREFIX: "urn:harness:"},
        "entity": {_qualified(name): _entity(entity) for name, entity in history.entities.items()},
        "activity": {_qualified(event.id): _activity(event) for event in events},
        "agent": {
            _qualified(f"machine-{replica}"): {"prov:type": _type("prov:SoftwareAgent")}
            for replica in sorted(history.clock)
        },
        "used": _with_ids(
            "used", (_event_and_entity(event, name) for event in events for name in event.consumes)
        ),
        "wasGeneratedBy": _with_ids("generated", generated),
        "wasInfluencedBy": _with_ids("influenced", influenced),
        "wasDerivedFrom": _with_ids("derived", _derivations(history)),
        "wasInformedBy": _with_ids("informed", _follows(events, history)),
        "wasAssociatedWith": _with_ids("associated", map(_association, events)),
    }


def _entity(entity: Entity) -> Record:
    attributes: Record = {"harness:origin": entity.origin}
    if entity.label.caps:
        attributes["harness:caps"] = sorted(entity.label.caps)
    if entity.label.taint:
        attributes["harness:taint"] = sorted(entity.label.taint)
    return attributes


def _activity(event: Event) -> Record:
    at = event.as_json()["at"]
    return {
        "prov:startTime": at,
        "prov:endTime": at,
        "prov:type": _type(f"{PREFIX}:{event.kind}"),
        "harness:run": event.run_id,
    }


def _generations(events: tuple[Event, ...]) -> tuple[list[Record], list[Record]]:
    first: set[str] = set()
    generated: list[Record] = []
    influenced: list[Record] = []
    for event in events:
        for name in event.produces:
            if name in first:
                influenced.append(
                    {"prov:influencee": _qualified(name), "prov:influencer": _qualified(event.id)}
                )
            else:
                generated.append(_event_and_entity(event, name))
            first.add(name)
    return generated, influenced


def _derivations(history: History) -> Iterator[Record]:
    for name, entity in history.entities.items():
        for source in entity.sources:
            if source in history.entities:
                yield {
                    "prov:generatedEntity": _qualified(name),
                    "prov:usedEntity": _qualified(source),
                }


def _follows(events: tuple[Event, ...], history: History) -> Iterator[Record]:
    for event in events:
        for head in event.heads:
            if head in history.events:
                yield {"prov:informed": _qualified(event.id), "prov:informant": _qualified(head)}


def _association(event: Event) -> Record:
    return {
        "prov:activity": _qualified(event.id),
        "prov:agent": _qualified(f"machine-{event.replica}"),
    }


def _event_and_entity(event: Event, entity: str) -> Record:
    return {"prov:activity": _qualified(event.id), "prov:entity": _qualified(entity)}


def _with_ids(word: str, records: Iterator[Record] | list[Record]) -> dict[str, Json]:
    return {f"_:{word}{number}": record for number, record in enumerate(records, 1)}


def _type(qualified: str) -> Record:
    return {"$": qualified, "type": "prov:QUALIFIED_NAME"}


def _qualified(name: str) -> str:
    return f"{PREFIX}:{name}"
