"""The event log as PROV-JSON."""

import json
import re
from collections.abc import Mapping
from datetime import datetime

import pytest

from contracts.entity import Entity, Label
from flows.views.export import prov_document
from policy.log.events import History
from tests.support.policy import OpenLog, draft, entity, three_events

REFERS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "used": {"prov:activity": ("activity",), "prov:entity": ("entity",)},
    "wasGeneratedBy": {"prov:activity": ("activity",), "prov:entity": ("entity",)},
    "wasDerivedFrom": {"prov:generatedEntity": ("entity",), "prov:usedEntity": ("entity",)},
    "wasInformedBy": {"prov:informed": ("activity",), "prov:informant": ("activity",)},
    "wasInfluencedBy": {"prov:influencee": ("entity",), "prov:influencer": ("activity",)},
    "wasAssociatedWith": {"prov:activity": ("activity",), "prov:agent": ("agent",)},
}
"""Relations of PROV-JSON, with the kind of record at each end."""


@pytest.fixture
def history(open_log: OpenLog) -> History:
    log = open_log()
    three_events(log)
    odd = Entity(
        content={"text": 'it\'s "odd"\n\u2028'},
        label=Label(caps=frozenset({"pii"})),
        origin="x'); DROP TABLE events; --",
        sources=(entity("do it").id,),
        part_of=entity("do it").id,
    )
    log.append([draft(odd, of=(entity("do it"),)), draft(odd, kind="step", run_id="run2")])
    return log.history()


def test_prov_json_is_valid_prov(history: History) -> None:
    document = json.loads(json.dumps(prov_document(history)))
    assert document["prefix"] == {"harness": "urn:harness:"}
    records = {kind: document[kind] for kind in ("entity", "activity", "agent")}
    for kind, ends in REFERS.items():
        for name, record in document[kind].items():
            assert name.startswith("_:")
            assert record.keys() == ends.keys()
            for end, kinds in ends.items():
                assert any(record[end] in records[wanted] for wanted in kinds)
    for names in records.values():
        assert all(re.fullmatch(r"harness:[\w-]+", name) for name in names)
    for activity in document["activity"].values():
        assert datetime.fromisoformat(activity["prov:startTime"]).tzinfo is not None
        assert activity["prov:type"]["$"].startswith("harness:")
    generated = [record["prov:entity"] for record in document["wasGeneratedBy"].values()]
    assert len(generated) == len(set(generated)), "an entity is generated once"
    assert not set(records["entity"]) & set(records["activity"])


def test_prov_json_has_every_event_and_entity(history: History) -> None:
    document = prov_document(history)
    events = history.events.values()
    assert len(document["activity"]) == len(history.events) == 5
    assert len(document["entity"]) == len(history.entities)
    assert len(document["used"]) == sum(len(event.consumes) for event in events)
    produced = len(document["wasGeneratedBy"]) + len(document["wasInfluencedBy"])
    assert produced == sum(len(event.produces) for event in events)


def test_an_empty_history_is_an_empty_document() -> None:
    assert prov_document(History())["activity"] == {}
