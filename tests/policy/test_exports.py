"""The log in other people's words: PROV-JSON and Parquet."""

import json
import re
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

import pytest

from contracts.entity import Entity, Label
from contracts.json import Json
from policy.log.merge import History
from policy.log.parquet import write_parquet
from policy.log.prov import prov
from tests.policy.conftest import OpenLog, draft, entity, three_events

REFERS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "used": {"prov:activity": ("activity",), "prov:entity": ("entity",)},
    "wasGeneratedBy": {"prov:activity": ("activity",), "prov:entity": ("entity",)},
    "wasDerivedFrom": {"prov:generatedEntity": ("entity",), "prov:usedEntity": ("entity",)},
    "wasInformedBy": {"prov:informed": ("activity",), "prov:informant": ("activity",)},
    "wasInfluencedBy": {"prov:influencee": ("entity",), "prov:influencer": ("activity",)},
    "wasAssociatedWith": {"prov:activity": ("activity",), "prov:agent": ("agent",)},
}
"""PROV-JSON's relations, and which records each of their ends must be."""


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


def test_prov_json_keeps_the_rules_of_prov(history: History) -> None:
    document = json.loads(json.dumps(prov(history)))
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


def test_prov_json_tells_all_that_happened(history: History) -> None:
    document = prov(history)
    events = history.events.values()
    assert len(document["activity"]) == len(history.events) == 5
    assert len(document["entity"]) == len(history.entities)
    assert len(document["used"]) == sum(len(event.consumes) for event in events)
    told = len(document["wasGeneratedBy"]) + len(document["wasInfluencedBy"])
    assert told == sum(len(event.produces) for event in events)


def test_duckdb_reads_the_parquet_files(history: History, tmp_path: Path) -> None:
    import duckdb  # what is imported earlier is kept from being collected, of which it complains

    files = write_parquet(history, tmp_path / "it's here")
    with duckdb.connect() as base:
        for file in files:
            base.read_parquet(str(file)).create_view(file.stem)
        ids = base.sql("SELECT id FROM events ORDER BY place").fetchall()
        assert [row[0] for row in ids] == [event.id for event in history.in_order()]
        odd = base.sql("SELECT content, caps FROM entities WHERE origin LIKE '%DROP%'").fetchall()
        assert json.loads(odd[0][0]) == {"text": 'it\'s "odd"\n\u2028'}
        assert odd[0][1] == ["pii"]
        tainted: list[tuple[Json, ...]] = base.sql(
            "SELECT e.kind FROM events e JOIN links l ON l.event = e.id "
            "JOIN entities n ON n.id = l.entity "
            "WHERE l.role = 'produces' AND len(n.flow_taint) > 0 ORDER BY e.place"
        ).fetchall()
        assert [row[0] for row in tainted] == ["source", "node"]


def test_an_empty_history_exports_as_empty_files(tmp_path: Path) -> None:
    import duckdb  # as above

    files = write_parquet(History(), tmp_path)
    with duckdb.connect() as base:
        assert [base.read_parquet(str(f)).fetchall() for f in files] == [[], [], []]
    assert prov(History())["activity"] == {}
